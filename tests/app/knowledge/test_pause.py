from __future__ import annotations

import threading

from app.knowledge.pause import RESUME_AFTER_S, Pause


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_work_goes_on_two_seconds_after_the_last_answer_ended() -> None:
    clock = Clock()
    pause = Pause(clock)
    assert pause._left() == 0
    pause.begin()
    pause.begin()
    assert pause._left() is None
    pause.end()
    assert pause._left() is None
    pause.end()
    assert pause._left() == RESUME_AFTER_S
    clock.now += RESUME_AFTER_S
    assert pause._left() == 0


def test_an_end_without_a_begin_changes_nothing() -> None:
    pause = Pause(Clock())
    pause.end()
    assert pause._left() == 0
    pause.begin()
    assert pause._left() is None


def test_closing_frees_who_waits() -> None:
    pause = Pause()
    pause.begin()
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(pause.wait()))
    waiting.start()
    assert waiting.is_alive()
    pause.close()
    waiting.join()
    assert answers == [False]


def test_what_is_not_wanted_any_more_waits_no_longer() -> None:
    pause = Pause()
    pause.begin()
    answers = iter([True, False])
    assert not pause.wait(lambda: next(answers))
    pause.close()
    assert not pause.wait()
