"""A kill costs at most a second of an answer: what is on disk at each moment of a stream."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from app.store.conversation import AnswerInfo
from app.store.history import History
from app.turn import Saved, Turn
from engine.events import Delta, Event, Finished
from engine.messages import ChatMessage, Submit
from tests.app.fake_client import FakeClient, result

ARRIVING = ((0.0, "a"), (0.5, "b"), (0.9, "c"), (1.0, "d"), (1.9, "e"), (2.1, "f"), (9.0, "g"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_no_text_older_than_a_second_is_only_in_memory(tmp_path: Path) -> None:
    clock = Clock()

    def script(submit: Submit, _client: FakeClient) -> Iterator[Event]:
        for at, text in ARRIVING:
            clock.now = at
            yield Delta(submit.request_id, (ord(text),), text, "")
        yield Finished(submit.request_id, result("abcdefg"))

    history = History.open(tmp_path / "chats.sqlite3", tmp_path / "locks")
    chat = history.new_chat()
    question = history.add_user(chat.id, None, "Hello?")
    answer = history.begin_answer(chat.id, question.id)
    turn = Turn(
        history,
        FakeClient(script),
        Saved(chat.id, question.id, answer.id),
        AnswerInfo(),
        clock=clock,
    )
    submit = Submit("one", "chat", (ChatMessage("user", "Hello?"),))
    arrived: dict[float, str] = {}
    on_disk = []
    so_far = ""
    for event in turn.run("one", script(submit, FakeClient()), lambda: False):
        if isinstance(event, Delta):
            so_far += event.text
            arrived[clock.now] = so_far
            on_disk.append(history.message(answer.id).text)
            older = [text for at, text in arrived.items() if clock.now - at >= 1.0]
            assert on_disk[-1].startswith(older[-1] if older else "a")
    assert on_disk == ["a", "a", "a", "abcd", "abcd", "abcdef", "abcdefg"]
    assert history.message(answer.id).text == "abcdefg"
    history.close()


@pytest.mark.parametrize("kept", [0, 3])
def test_a_stream_that_is_left_keeps_every_word(tmp_path: Path, kept: int) -> None:
    def script(submit: Submit, _client: FakeClient) -> Iterator[Event]:
        for _at, text in ARRIVING:
            yield Delta(submit.request_id, (ord(text),), text, "")

    history = History.open(tmp_path / "chats.sqlite3", tmp_path / "locks")
    chat = history.new_chat()
    question = history.add_user(chat.id, None, "Hello?")
    answer = history.begin_answer(chat.id, question.id)
    saved = Saved(chat.id, question.id, answer.id)
    turn = Turn(history, FakeClient(script), saved, AnswerInfo(), clock=Clock())
    submit = Submit("one", "chat", (ChatMessage("user", "Hello?"),))
    events = turn.run("one", script(submit, FakeClient()), lambda: False)
    assert isinstance(next(events), Saved)
    for _ in range(kept):
        next(events)
    assert isinstance(events, Generator)
    events.close()
    message = history.message(answer.id)
    assert (message.text, message.status) == ("abcdefg"[:kept], "cut")
    history.close()
