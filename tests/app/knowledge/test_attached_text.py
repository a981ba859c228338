"""Laws of text that came with a question: it stays with the question, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.asking import TEXT_GONE
from app.attached import Attachment
from app.grounding import Searching
from app.paths import Paths
from app.session import Answered, Options, Session, SessionEvent
from app.settings import Settings
from app.store.history import History
from tests.app.fake_client import FakeClient


def bees(first: int, end: int) -> str:
    return "\n\n".join(f"Bee {one} lives in hive number {one}." for one in range(first, end))


BEES = bees(0, 600)
WITH_BEES = Options(attached=(Attachment("bees.txt", BEES),))


@pytest.fixture
def client() -> FakeClient:
    client = FakeClient()
    assert client.now is not None
    client.now = replace(client.now, ctx=16_384)
    return client


@pytest.fixture
def session(
    tmp_path: Path, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    """Searches by words."""
    paths = Paths.under(tmp_path / "data").ensure()
    session = Session(History.open(paths.database, paths.locks), client, Settings(), paths)
    monkeypatch.setattr(session.knowledge.all, "embedder", None)
    yield session
    session.close()


def ended(events: Iterator[SessionEvent]) -> Answered:
    *_, last = events
    assert isinstance(last, Answered)
    return last


def prompt(client: FakeClient) -> str:
    return client.submits[-1].messages[-1].content


def test_a_new_version_of_a_question_is_about_the_text_too(
    session: Session, client: FakeClient
) -> None:
    first = ended(session.send(None, "Where does Bee 77 live?", WITH_BEES))
    ended(session.edit(first.user_message_id, "Where does Bee 78 live?"))
    assert "Bee 78 lives in hive number 78." in prompt(client)


def test_a_question_that_was_stopped_before_its_text_was_searched_can_be_asked_again(
    session: Session, client: FakeClient
) -> None:
    events = session.send(None, "Where does Bee 77 live?", WITH_BEES)
    for event in events:
        if isinstance(event, Searching):
            session.cancel()
        last = event
    assert isinstance(last, Answered)
    assert client.submits == []
    ended(session.regenerate(last.message_id))
    assert "Bee 77 lives in hive number 77." in prompt(client)


def test_text_that_is_gone_is_told_once(session: Session, client: FakeClient) -> None:
    first = ended(session.send(None, "Where does Bee 77 live?", WITH_BEES))
    session.forget()
    told = [
        ended(session.send(first.chat_id, question)).result.notices for question in ("A?", "B?")
    ]
    assert told == [(TEXT_GONE,), ()]
    assert prompt(client) == "B?"


def test_files_of_one_name_are_all_searched(session: Session, client: FakeClient) -> None:
    files = (Attachment("notes.txt", BEES), Attachment("notes.txt", bees(600, 1200)))
    first = ended(session.send(None, "Where does Bee 77 live?", Options(attached=files)))
    assert "Bee 77 lives" in prompt(client)
    ended(session.send(first.chat_id, "Where does Bee 777 live?"))
    assert "Bee 777 lives" in prompt(client)
    assert "notes.txt (2)" in prompt(client)
