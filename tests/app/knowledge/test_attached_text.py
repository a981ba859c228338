"""Laws of text that came with a question: it stays with the question, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.asking import TEXT_GONE
from app.attached import Attachment, attached_file
from app.grounding import Searching
from app.paths import Paths
from app.session import Answered, Options, Session, SessionEvent
from app.settings import KnowledgeSettings, Settings
from app.store.history import History
from engine.errors import UsageError
from tests.app.fake_client import FakeClient


def bees(first: int, end: int) -> str:
    return "\n\n".join(f"Bee {one} lives in hive number {one}." for one in range(first, end))


BEES = bees(0, 600)
CHINESE = "花园俱乐部的年费为四十欧元，每年三月支付。\r\n会员可以带狗进入花园。\r\n" * 9
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


def test_a_question_is_made_whole_once_however_often_it_is_searched(
    session: Session, client: FakeClient
) -> None:
    chat = ended(session.send(None, "Hello bees, how are you?")).chat_id
    options = replace(WITH_BEES, documents=KnowledgeSettings(read_all=False))
    ended(session.send(chat, "What does it zorgle?", options))
    assert [submit.kind for submit in client.submits] == ["answer", "aside", "answer"]


def test_files_of_one_name_are_all_searched(session: Session, client: FakeClient) -> None:
    files = (Attachment("notes.txt", BEES), Attachment("notes.txt", bees(600, 1200)))
    first = ended(session.send(None, "Where does Bee 77 live?", Options(attached=files)))
    assert "Bee 77 lives" in prompt(client)
    ended(session.send(first.chat_id, "Where does Bee 777 live?"))
    assert "Bee 777 lives" in prompt(client)
    assert "notes.txt (2)" in prompt(client)


@pytest.mark.parametrize(
    ("encoding", "told"),
    [("utf-8-sig", ""), ("utf-16", ""), ("gb18030", "read as gb18030"), ("utf-8", "")],
)
def test_a_file_is_read_as_the_text_that_it_is(tmp_path: Path, encoding: str, told: str) -> None:
    text = (
        "花园俱乐部的年费为四十欧元，每年三月支付。\r\n会员可以带狗进入花园，但晚上十点以后不行。\r\n"
        * 9
    )
    path = tmp_path / "notes.txt"
    path.write_bytes(text.encode(encoding))
    read = attached_file(path)
    assert (read.text, read.notice) == (text.replace("\r\n", "\n"), told)


def test_what_was_guessed_of_a_file_is_told(
    session: Session, client: FakeClient, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(CHINESE.encode("gb18030"))
    answered = ended(session.send(None, "Where?", Options(attached=(attached_file(path),))))
    assert "年费为四十欧元" in prompt(client)
    assert answered.result.notices[-1] == "a.txt: read as gb18030."


@pytest.mark.parametrize("data", [b"\x89PNG" + bytes(99), b"text\0\1\2" * 99])
def test_a_binary_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="no text file"):
        attached_file(path)
