"""The scripted backend keeps the promises of the seam, strictly."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from engine.backends.base import Row
from engine.backends.scripted import Faults, ScriptedBackend, scripted_backend
from engine.backends.scripted_vocabulary import END
from engine.errors import Interrupted, OutOfRoom


def logits(backend: ScriptedBackend, sequence: int, ids: tuple[int, ...]) -> list[float]:
    row = Row(sequence, backend.length(sequence), ids, True)
    return list(map(float, backend.forward([row]).row(0)))


def test_scores_depend_on_the_whole_history_and_nothing_else() -> None:
    backend = scripted_backend()
    cut = scripted_backend()
    whole = logits(backend, 0, (1, 2, 3, 4))
    logits(cut, 5, (1, 2))
    assert logits(cut, 5, (3, 4)) == whole
    assert logits(backend, 1, (0, 2, 3, 4)) != whole
    assert logits(backend, 2, (1, 2, 4, 3)) != whole


def test_fork_park_restore_and_truncate_keep_the_history() -> None:
    backend = scripted_backend()
    expected = logits(scripted_backend(), 0, (1, 2, 3, 9))
    logits(backend, 0, (1, 2, 3, 4, 5))
    backend.fork(0, 1, 3)
    assert logits(backend, 1, (9,)) == expected
    parked = backend.park(0)
    assert backend.length(0) == 0
    assert backend.restore(parked, 0, 3) == 3
    assert logits(backend, 0, (9,)) == expected
    assert backend.truncate(0, 3) == 3
    assert logits(backend, 0, (9,)) == expected


@pytest.mark.parametrize(
    ("options", "kept"), [({}, 7), ({"window": 2}, 5), ({"recurrent": True}, 5)]
)
def test_limited_backends_cut_to_fewer_lengths_and_say_so(
    options: dict[str, Any], kept: int
) -> None:
    backend = scripted_backend(**options)
    logits(backend, 0, (1, 2, 3, 4, 5))
    backend.mark(0)
    logits(backend, 0, (6, 7, 8, 9, 10))
    parked = backend.park(0)
    assert parked.positions is None or 7 not in parked.positions
    assert backend.restore(parked, 0, 7) == backend.length(0) == kept


def test_interruptions_report_what_was_written() -> None:
    backend = scripted_backend(faults=Faults(interrupt_at={0: 4}))
    rows = [Row(0, 0, (1, 2, 3), False), Row(1, 0, (4, 5, 6), True)]
    with pytest.raises(Interrupted) as stopped:
        backend.forward(rows)
    assert stopped.value.rows_done == (3, 1)
    assert (backend.length(0), backend.length(1)) == (3, 1)


def test_an_interrupt_from_outside_stops_a_slow_forward_and_is_harmless_when_idle() -> None:
    backend = scripted_backend(delay_per_token_s=0.02)
    backend.interrupt()
    assert backend.forward([Row(0, 0, (1,), True)]).row(0).shape == (261,)
    ended = threading.Event()

    def interrupt() -> None:
        while not ended.wait(0.05):  # also before it is slow
            backend.interrupt()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(Interrupted):
        backend.forward([Row(0, 1, (1,) * 500, True)])
    ended.set()
    interrupting.join()
    assert 1 <= backend.length(0) < 400


def test_without_room_nothing_is_written() -> None:
    backend = scripted_backend(faults=Faults(room_tokens=5))
    logits(backend, 0, (1, 2, 3))
    with pytest.raises(OutOfRoom):
        backend.forward([Row(0, 3, (4, 5, 6), True)])
    assert backend.length(0) == 3
    assert backend.room().free_tokens == 2


def test_a_script_answers_prompt_after_prompt_and_ends() -> None:
    backend = scripted_backend(script=[[7, 8], [9]])
    assert int(np.argmax(logits(backend, 0, (1, 2)))) == 7
    assert int(np.argmax(logits(backend, 0, (7,)))) == 8
    assert int(np.argmax(logits(backend, 0, (8,)))) == END
    assert int(np.argmax(logits(backend, 1, (1, 3)))) == 9
    assert int(np.argmax(logits(backend, 1, (9,)))) == END
    assert int(np.argmax(logits(backend, 2, (5,)))) == END


def test_rows_that_do_not_fit_the_books_are_refused() -> None:
    backend = scripted_backend(context=8)
    for row in (Row(0, 1, (1,), True), Row(0, 0, (), True), Row(0, 0, (1,) * 9, True)):
        with pytest.raises(AssertionError):
            backend.forward([row])
