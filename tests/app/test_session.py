"""Laws of the one path from a question to an answer, over a scripted engine and a real database."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.paths import Paths
from app.session import Answered, Options, Saved, Session, SessionEvent
from app.settings import Settings
from app.store.history import History
from app.store.locks import conversation_lock
from engine.errors import LocalchatError, UsageError
from engine.events import Delta, ErrorInfo, Event, Failed, Finished, FinishReason, Started
from engine.messages import SamplingOverrides, Submit
from tests.app.fake_client import FakeClient, answers, dies_after, result
from tests.patience import PATIENCE_S


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.under(tmp_path / "data").ensure()


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def session(paths: Paths, client: FakeClient) -> Iterator[Session]:
    history = History.open(paths.database, paths.locks)
    session = Session(history, client, Settings(), paths)
    yield session
    session.close()


def finished(events: Iterator[SessionEvent]) -> Answered:
    last = list(events)[-1]
    assert isinstance(last, Answered)
    return last


def failure(events: Iterator[SessionEvent]) -> ErrorInfo:
    last = list(events)[-1]
    assert isinstance(last, Failed)
    return last.cause


def rows_on_disk(paths: Paths) -> list[tuple[str, str, str]]:
    """As another program sees the file."""
    connection = sqlite3.connect(paths.database)
    try:
        return list(connection.execute("SELECT role, text, status FROM messages ORDER BY id"))
    finally:
        connection.close()


def test_question_and_empty_answer_are_on_disk_before_the_engine_is_asked(
    session: Session, client: FakeClient, paths: Paths
) -> None:
    events = session.send(None, "Hello?")
    saved = next(events)
    assert isinstance(saved, Saved)
    assert client.submits == []
    assert rows_on_disk(paths) == [("user", "Hello?", "complete"), ("assistant", "", "streaming")]
    assert isinstance(next(events), Started)
    answered = finished(events)
    assert (answered.chat_id, answered.user_message_id, answered.message_id) == (1, 1, 2)
    assert rows_on_disk(paths)[1] == ("assistant", "Hello.", "complete")


def test_first_words_are_on_disk_as_soon_as_they_are_shown(session: Session, paths: Paths) -> None:
    events = session.send(None, "Hello?")
    while not isinstance(event := next(events), Delta):
        pass
    assert event.text == "Hel"
    assert rows_on_disk(paths)[1] == ("assistant", "Hel", "streaming")
    list(events)


def test_the_prompt_is_exactly_the_visible_path(session: Session, client: FakeClient) -> None:
    chat = session.new_chat("Be kind.")
    first = finished(session.send(chat.id, "one"))
    finished(session.send(chat.id, "two"))
    finished(session.edit(first.user_message_id, "uno"))
    finished(session.send(chat.id, "due"))
    said = [(message.role, message.content) for message in client.submits[-1].messages]
    assert said == [
        ("system", "Be kind."),
        ("user", "uno"),
        ("assistant", "Hello."),
        ("user", "due"),
    ]


def test_answers_go_back_with_the_ids_that_were_sampled(
    session: Session, client: FakeClient
) -> None:
    first = finished(session.send(None, "one"))
    finished(session.send(first.chat_id, "two"))
    answer = client.submits[-1].messages[1]
    assert answer.ids == first.result.token_ids
    assert answer.tokenizer == "letters"


def test_regenerating_adds_a_sibling_and_keeps_the_old_answer(
    session: Session, client: FakeClient
) -> None:
    first = finished(session.send(None, "one"))
    client.script = answers("Again.")
    by_answer = finished(session.regenerate(first.message_id))
    by_question = finished(session.regenerate(first.user_message_id))
    siblings = session.history.siblings(first.message_id)
    assert siblings == [first.message_id, by_answer.message_id, by_question.message_id]
    assert session.history.message(first.message_id).text == "Hello."
    assert client.submits[-1].messages == client.submits[0].messages
    assert client.submits[-1].sampling.seed is None


def test_editing_twice_and_switching_back_loses_nothing(session: Session) -> None:
    first = finished(session.send(None, "one"))
    second = finished(session.send(first.chat_id, "two"))
    edited = finished(session.edit(first.user_message_id, "uno"))
    session.select(first.user_message_id)
    path = [message.id for message in session.history.path(first.chat_id)]
    assert path == [1, 2, second.user_message_id, second.message_id]
    session.select(edited.message_id)
    assert [m.text for m in session.history.path(first.chat_id)] == ["uno", "Hello."]


@pytest.mark.parametrize(
    ("reason", "status"),
    [("stop", "complete"), ("length", "cut"), ("context", "cut"), ("cancelled", "stopped")],
)
def test_every_ending_leaves_a_conversation_that_goes_on(
    session: Session, client: FakeClient, reason: FinishReason, status: str
) -> None:
    client.script = answers("Part", reason=reason)
    first = finished(session.send(None, "one"))
    assert session.history.message(first.message_id).status == status
    client.script = answers("Fine.")
    assert finished(session.send(first.chat_id, "two")).message.text == "Fine."


def test_a_dead_engine_costs_one_answer_and_keeps_its_text(
    session: Session, client: FakeClient
) -> None:
    client.script = dies_after("Half an ans")
    cause = failure(session.send(None, "one"))
    assert cause.title == "The engine's process ended."
    cut = session.history.message(2)
    assert (cut.text, cut.status) == ("Half an ans", "cut")
    assert cut.info is not None
    assert cut.info.error == cause
    client.script = answers("Fine.")
    finished(session.send(1, "two"))
    assert [m.content for m in client.submits[-1].messages] == ["one", "Half an ans", "two"]


def test_a_failure_before_the_first_word_is_an_error_and_leaves_no_empty_turn(
    session: Session, client: FakeClient
) -> None:
    client.script = dies_after()
    failure(session.send(None, "one"))
    assert session.history.message(2).status == "error"
    client.script = answers("Fine.")
    finished(session.send(1, "two"))
    assert [(m.role, m.content) for m in client.submits[-1].messages] == [
        ("user", "one"),
        ("user", "two"),
    ]


@pytest.mark.parametrize(("arrived", "status"), [("", "error"), ("Half", "cut")])
def test_an_engine_that_refuses_is_the_reason_that_is_kept_with_the_answer(
    session: Session, client: FakeClient, arrived: str, status: str
) -> None:
    def script(submit: Submit, _client: FakeClient) -> Iterator[Event]:
        if arrived:
            yield Delta(submit.request_id, (1,), arrived, "")
        raise UsageError("This request is already running.", "Its name is x.", "Wait for it.")

    client.script = script
    cause = failure(session.send(None, "one"))
    message = session.history.message(2)
    assert (message.text, message.status) == (arrived, status)
    assert message.info is not None
    assert message.info.error == cause


def test_a_front_end_that_goes_away_stops_the_engine_and_keeps_the_text(
    session: Session, client: FakeClient
) -> None:
    events = session.send(None, "one")
    while not isinstance(next(events), Delta):
        pass
    events.close()
    assert client.cancelled == [client.submits[0].request_id]
    cut = session.history.message(2)
    assert (cut.text, cut.status) == ("Hel", "cut")


def test_cancel_ends_the_running_answer_as_stopped(session: Session, client: FakeClient) -> None:
    events = session.send(None, "one")
    seen: list[SessionEvent] = []
    for event in events:
        seen.append(event)
        if isinstance(event, Delta):
            session.cancel()
    assert isinstance(seen[-1], Answered)
    assert seen[-1].result.finish_reason == "cancelled"
    assert seen[-1].message.status == "stopped"


def test_cancel_before_the_engine_is_asked_asks_nothing(
    session: Session, client: FakeClient
) -> None:
    events = session.send(None, "one")
    assert isinstance(next(events), Saved)
    session.cancel(1)
    assert finished(events).result.finish_reason == "cancelled"
    assert client.submits == []


def test_a_cut_answer_goes_on_in_the_same_message(session: Session, client: FakeClient) -> None:
    client.script = answers("One, two", reason="length")
    first = finished(session.send(None, "count"))
    client.script = answers(", three.")
    more = finished(session.continue_answer(first.message_id))
    assert more.message_id == first.message_id
    assert more.message.text == "One, two, three."
    assert more.message.ids == first.result.token_ids + more.result.token_ids
    assert client.submits[-1].kind == "continue"
    assert client.submits[-1].messages[-1].content == "One, two"


def test_an_empty_message_stores_nothing(session: Session, client: FakeClient) -> None:
    assert failure(session.send(None, " \n\t ")).code == "usage"
    assert session.history.chats() == []
    assert client.submits == []


def test_a_chat_that_another_window_answers_is_refused_and_unchanged(
    session: Session, paths: Paths
) -> None:
    first = finished(session.send(None, "one"))
    with conversation_lock(paths.locks, first.chat_id):
        cause = failure(session.send(first.chat_id, "two"))
    assert cause.code == "failed"
    assert len(session.history.path(first.chat_id)) == 2
    finished(session.send(first.chat_id, "two"))


def test_unknown_numbers_are_errors_by_name(session: Session) -> None:
    assert "9" in failure(session.send(9, "one")).title
    assert "9" in failure(session.regenerate(9)).title
    assert "9" in failure(session.edit(9, "text")).title


def test_the_names_of_two_folders_chats_never_meet(tmp_path: Path, client: FakeClient) -> None:
    names = []
    for folder in ("a", "b", "a"):
        paths = Paths.under(tmp_path / folder).ensure()
        history = History.open(paths.database, paths.locks)
        session = Session(history, client, Settings(), paths)
        names.append(session.conversation(1))
        session.close()
    assert names[0] == names[2]
    assert names[0] != names[1]


def test_private_chats_leave_no_trace_and_are_dropped_from_the_engine(
    session: Session, client: FakeClient, paths: Paths
) -> None:
    private = session.private_twin()
    first = finished(private.send(None, "a secret"))
    finished(private.send(first.chat_id, "and more"))
    assert session.history.chats() == []
    name = client.submits[-1].conversation
    private.forget()
    assert client.dropped == [name]
    found = [path for path in paths.data.parent.rglob("*") if path.is_file()]
    assert not any(b"a secret" in path.read_bytes() for path in found)


def test_purging_a_chat_drops_its_place_in_the_engine(session: Session, client: FakeClient) -> None:
    first = finished(session.send(None, "one"))
    session.delete(first.chat_id)
    assert session.history.chats() == []
    session.undo_delete(first.chat_id)
    session.delete(first.chat_id)
    session.purge(first.chat_id)
    assert client.dropped == [session.conversation(first.chat_id)]


def test_a_title_from_the_model_never_replaces_one_that_a_person_set(
    session: Session, client: FakeClient
) -> None:
    first = finished(session.send(None, "one"))
    client.script = answers('Title: "Numbers in a row"\n\nmore')
    usage = session.title(first.chat_id)
    assert usage.prompt_tokens == 20
    assert session.history.chat(first.chat_id).title == "Numbers in a row"
    assert client.submits[-1].kind == "title"
    session.history.rename(first.chat_id, "Mine")
    session.title(first.chat_id)
    assert session.history.chat(first.chat_id).title == "Mine"


def test_a_title_that_was_stopped_midway_is_not_taken(session: Session, client: FakeClient) -> None:
    first = finished(session.send(None, "one"))
    client.script = answers("Here", reason="cancelled")
    session.title(first.chat_id)
    assert session.history.chat(first.chat_id).title == "one"


def test_a_title_that_fails_is_an_exception_and_changes_nothing(
    session: Session, client: FakeClient
) -> None:
    first = finished(session.send(None, "one"))
    client.script = dies_after()
    with pytest.raises(LocalchatError):
        session.title(first.chat_id)
    assert session.history.chat(first.chat_id).title == "one"


def test_options_go_before_settings(paths: Paths, client: FakeClient) -> None:
    from app.settings import apply_options

    settings = apply_options(Settings(), ["temperature=0.5", "top_k=3", "stop=END"])
    session = Session(History.in_memory(), client, settings, paths)
    options = Options(sampling=SamplingOverrides(top_k=9, seed=1), max_tokens=5, stop_after=2)
    finished(session.send(None, "one", options))
    asked = client.submits[-1]
    assert (asked.sampling.temperature, asked.sampling.top_k, asked.sampling.seed) == (0.5, 9, 1)
    assert (asked.max_tokens, asked.stop, asked.stop_after) == (5, ("END",), 2)
    session.close()


def test_an_answer_without_a_model_keeps_the_question(session: Session, client: FakeClient) -> None:
    client.now = None
    assert failure(session.send(None, "one")).code == "model"
    assert [m.text for m in session.history.path(1)] == ["one"]


def test_editing_an_answer_is_refused(session: Session) -> None:
    first = finished(session.send(None, "one"))
    assert "question" in failure(session.edit(first.message_id, "x")).text
    with pytest.raises(UsageError):
        list(session._answers.edit(first.message_id, " ", Options()))


def test_a_result_that_failed_midway_keeps_what_was_computed(
    session: Session, client: FakeClient
) -> None:
    def script(submit: Submit, _client: FakeClient) -> Iterator[Event]:
        name = submit.request_id
        yield Started(name, 4, 0, 0)
        yield Delta(name, (1, 2), "ab", "")
        yield Failed(name, ErrorInfo("failed", "A score is no number."), result("abc", "error"))

    client.script = script
    failure(session.send(None, "one"))
    message = session.history.message(2)
    assert (message.text, message.status) == ("abc", "cut")
    assert message.info is not None
    assert message.info.finish_reason == "error"


def test_finished_without_words_is_kept_as_a_complete_answer(
    session: Session, client: FakeClient
) -> None:
    def script(submit: Submit, _client: FakeClient) -> Iterator[Event]:
        yield Finished(submit.request_id, result(""))

    client.script = script
    assert finished(session.send(None, "one")).message.status == "complete"


def test_a_front_end_that_goes_away_at_once_leaves_no_answer_streaming(session: Session) -> None:
    events = session.send(None, "one")
    assert isinstance(next(events), Saved)
    events.close()
    assert session.history.message(2).status == "cut"


def test_a_front_end_that_goes_away_after_closing_raises_nothing(
    session: Session, client: FakeClient
) -> None:
    events = session.send(None, "one")
    while not isinstance(next(events), Delta):
        pass
    session.history.close()
    events.close()
    assert client.cancelled == [client.submits[0].request_id]


def test_closing_waits_for_answers_that_other_threads_stream(
    session: Session, client: FakeClient, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, cancelled = threading.Event(), threading.Event()

    def script(submit: Submit, _client: FakeClient) -> Iterator[Event]:
        yield Delta(submit.request_id, (1,), "Half", "")
        asked.set()
        cancelled.wait(PATIENCE_S)
        yield Finished(submit.request_id, result("Half", "cancelled"))

    client.script = script
    monkeypatch.setattr(client, "cancel", lambda _request_id: cancelled.set())
    thread = threading.Thread(target=lambda: list(session.send(None, "one")))
    thread.start()
    assert asked.wait(PATIENCE_S)
    monkeypatch.setattr("app.session.CLOSE_PATIENCE_S", PATIENCE_S)
    session.close()
    thread.join()
    assert rows_on_disk(paths)[1] == ("assistant", "Half", "stopped")
