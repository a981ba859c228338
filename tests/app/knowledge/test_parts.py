"""Laws of what is read in parts or whole: its room, its places, and honesty where reading fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from app.attached import Attachment
from app.grounding import READ_BEGINNING
from app.knowledge import parts
from app.knowledge.citations import check
from app.knowledge.errors import NoSuchBase
from app.knowledge.fitting import budget
from app.knowledge.passage import Passage, Retrieved, joined
from app.knowledge.places import source_lines
from app.knowledge.prompt import prefix
from app.knowledge.source_view import NOTES, in_document
from app.knowledge.sources import Sources
from app.knowledge.stored import StoredChunk
from app.paths import Paths
from app.session import Answered, Options, Session, SessionEvent
from app.settings import KnowledgeSettings, Settings
from app.store.history import History
from engine.events import ErrorInfo, Event, Failed, Finished, Usage
from engine.messages import Submit
from tests.app.fake_base import FakeBase, FakeIndex, passage
from tests.app.fake_client import FakeClient, Script, answers, result

KB = Options(kb="work")
ANTS = "\n".join(f"Ant {number} walks to stone {number}." for number in range(1, 60))
MANY = {f"{number}.md": f"Word {number}. " * 30 for number in range(12)}
USED = 6000


@pytest.fixture
def base() -> FakeBase:
    return FakeBase(Retrieved((passage("Ant"),), needs_all=True))


@pytest.fixture
def client() -> FakeClient:
    client = FakeClient()
    assert client.now is not None
    client.now = replace(client.now, ctx=8192)
    return client


@pytest.fixture
def session(
    tmp_path: Path, client: FakeClient, base: FakeBase, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    paths = Paths.under(tmp_path / "data").ensure()
    session = Session(History.open(paths.database, paths.locks), client, Settings(), paths)
    monkeypatch.setattr(session.knowledge, "get", lambda name: base)
    monkeypatch.setattr(session.knowledge.all, "embedder", None)
    yield session
    session.close()


def ended(events: Iterator[SessionEvent]) -> Answered:
    *_, last = events
    assert isinstance(last, Answered)
    return last


def sources_of(session: Session, answered: Answered) -> Sources:
    sources = session.history.message(answered.user_message_id).sources
    assert sources is not None
    return sources


def noting(note: str, answer: str = "Yes.", fails: int = 0) -> Script:
    """Says `note` of each part but the first `fails`, where the model fails."""
    left = [fails]

    def script(submit: Submit, client: FakeClient) -> Iterator[Event]:
        if submit.kind != "aside":
            yield from answers(answer)(submit, client)
        elif left[0] > 0:
            left[0] -= 1
            yield Failed(submit.request_id, ErrorInfo("context", "Too long.", ""))
        else:
            yield from answers(note)(submit, client)

    return script


def long_chat(session: Session, client: FakeClient) -> int:
    """A chat that takes up most of the context."""

    def script(submit: Submit, client: FakeClient) -> Iterator[Event]:
        ended = replace(result("Well."), usage=Usage(USED, 0, 0, USED, 0))
        yield Finished(submit.request_id, ended)

    client.script = script
    return ended(session.send(None, "Write.")).chat_id


def test_a_note_points_at_its_part_and_shows_as_a_note(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    base.index = FakeIndex({"a.md": ANTS})
    client.script = noting("- Ant 5\n- Ant 40\n- stone 50", "Stone 50 is there [1].")
    assert client.now is not None
    client.now = replace(client.now, ctx=2048)
    answered = ended(session.send(None, "List all ants.", KB))
    (part, *_) = sources_of(session, answered).passages
    (one,) = answered.message.citations
    assert (one.first_line, one.last_line) == (part.first_line, part.last_line)
    assert (one.start, one.end) == (part.start, part.end)
    view = in_document(part, FakeIndex({"a.md": ANTS}))  # type: ignore[arg-type]  # a stand-in
    assert (view.passage, view.notices) == (part.text, (NOTES,))


def test_where_the_model_fails_the_documents_are_not_said_to_say_nothing(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    base.index = FakeIndex(MANY)
    assert client.now is not None
    client.now = replace(client.now, ctx=4096)
    client.script = noting("Nothing.", fails=12)
    answered = ended(session.send(None, "Summarise all reports.", KB))
    assert (
        answered.message.text == "The model failed at 12 of the 12 parts: nothing is known of them."
    )
    client.script = noting("Nothing.", fails=2)
    answered = ended(session.regenerate(answered.message_id, KB))
    assert "say nothing" in answered.message.text
    assert "failed at 2 of the 12 parts" in answered.message.text
    client.script = noting("Word.", fails=2)
    answered = ended(session.regenerate(answered.message_id, KB))
    assert "failed at 2 of the 12 parts" in answered.result.notices[0]


def test_notes_leave_the_conversation_its_place(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    base.index = FakeIndex(MANY)
    chat = long_chat(session, client)
    client.script = noting("words " * 40)
    answered = ended(session.send(chat, "Summarise all reports.", KB))
    sources = sources_of(session, answered)
    assert len(prefix(sources)) <= budget(8192, USED)
    assert f"{len(sources.unused)} more parts" in answered.result.notices[-1]


def test_a_collection_that_would_push_the_conversation_out_is_searched(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    base.index = FakeIndex({"a.md": "Ants walk. " * 300})
    base.found = Retrieved((passage("Ants walk.", "a.md"),))
    chat = long_chat(session, client)
    sources = sources_of(session, ended(session.send(chat, "What do ants do?", KB)))
    assert (sources.is_whole, len(sources.passages)) == (False, 1)
    assert sources_of(session, ended(session.send(None, "What do ants do?", KB))).is_whole


def test_an_answer_from_a_base_that_was_removed_can_be_given_again(
    session: Session, client: FakeClient, base: FakeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.index = FakeIndex({"a.md": "Ants walk."})
    base.found = Retrieved((passage("Ants walk.", "a.md"),))
    first = ended(session.send(None, "What do ants do?", KB))

    def gone(name: str) -> FakeBase:
        raise NoSuchBase(f"There is no knowledge base {name}.")

    monkeypatch.setattr(session.knowledge, "get", gone)
    ended(session.regenerate(first.message_id))
    assert [submit.kind for submit in client.submits] == ["pin", "answer", "answer"]
    assert client.submits[1].messages == client.submits[2].messages


def test_an_attached_text_that_is_not_to_be_read_whole_is_read_from_its_beginning(
    session: Session, client: FakeClient
) -> None:
    text = "\n\n".join(f"Bee {number} lives in hive {number}." for number in range(400))
    options = Options(
        attached=(Attachment("bees.txt", text),), documents=KnowledgeSettings(read_all=False)
    )
    answered = ended(session.send(None, "Translate this into German.", options))
    content = client.submits[-1].messages[-1].content
    assert "Bee 0 lives in hive 0.\n\nBee 1 lives" in content
    assert len(content) < budget(8192) + 100
    assert READ_BEGINNING in answered.result.notices


def test_no_more_documents_are_read_than_parts_are(base: FakeBase) -> None:
    class Counting(FakeIndex):
        read = 0

        def document_chunks(self, content_id: int) -> list[StoredChunk]:
            self.read += 1
            return super().document_chunks(content_id)

    index = base.index = Counting({f"{number:03}.md": f"Text {number}." for number in range(500)})
    found = [passage("Text 77.", "077.md")]
    documents = parts.documents(base, found)  # type: ignore[arg-type]  # a stand-in
    some = list(islice(parts.parts(documents, len, 100), 5))
    assert [one.name for one in some] == ["077.md", "000.md", "001.md", "002.md", "003.md"]
    assert index.read == 5
    assert len(list(parts.documents(base, found))) == 500  # type: ignore[arg-type]  # a stand-in


# ---- places


def chunk(text: str, start: int, end: int, lines: tuple[int, int] | None) -> Passage:
    one = passage(text, "a.md")
    first, last = lines or (None, None)
    return replace(one, start=start, end=end, first_line=first, last_line=last)


def test_what_stands_between_two_chunks_moves_no_line() -> None:
    text = "One fee. Two dogs.\n  \n\n   Three bees.\nFour ants."
    pieces = ("One fee.", "Two dogs.", "Three bees.\nFour ants.")
    chunks = []
    for piece in pieces:
        start = text.index(piece)
        first = 1 + text.count("\n", 0, start)
        lines = (first, first + piece.count("\n"))
        chunks.append(chunk(piece, start, start + len(piece), lines))
    whole = joined(chunks)
    assert len(whole) == len(text)
    for piece in pieces:
        assert whole.index(piece) == text.index(piece)
        assert whole.count("\n", 0, whole.index(piece)) == text.count("\n", 0, text.index(piece))
    one = replace(chunks[0], text=whole, end=len(text), last_line=5)
    for said, line in (("Two dogs", 1), ("Three bees", 4), ("Four ants", 5)):
        (citation,) = check(f"{said} [1].", "What?", (one,))
        assert (citation.first_line, citation.last_line) == (line, line)


def test_a_citation_names_all_pages_that_it_is_from() -> None:
    first, second = "The fee is 5 euros.", "Dogs stay out."
    paged = replace(
        passage(f"{first}\n{second}", "a.pdf"),
        page=3,
        last_page=4,
        first_line=None,
        last_line=None,
        page_starts=((len(first) + 1, 4),),
    )
    said = (
        "The fee is 5 euros [1].",
        "Dogs stay out [1].",
        "The fee is 5 euros, dogs stay out [1].",
    )
    shown = [next(source_lines(check(one, "What?", (paged,)))) for one in said]
    assert shown == ["[1] a.pdf p. 3", "[1] a.pdf p. 4", "[1] a.pdf p. 3-4"]
