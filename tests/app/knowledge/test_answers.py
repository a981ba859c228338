"""Laws of answers from documents, over a scripted engine, scripted searches and a real database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.grounding import Found, Searching
from app.knowledge.passage import Retrieved
from app.knowledge.prompt import prefix
from app.paths import Paths
from app.session import Answered, Options, Saved, Session, SessionEvent
from app.settings import Settings
from app.store.history import History
from engine.events import Delta, Failed, Started
from tests.app.fake_base import FakeBase, FakeIndex, passage
from tests.app.fake_client import FakeClient, answers

FEE = passage("# Fees\nThe annual fee is 1,200 euros.\nIt is due in March.", "fees.md", 10)
DOGS = passage("Dogs stay out of the garden after 10 pm.", "rules.md")
KB = Options(kb="work")


class KnowingSession(Session):
    """Every name is the test's base."""

    fake = FakeBase()

    def base(self, name: str) -> FakeBase:  # type: ignore[override]
        return self.fake


@pytest.fixture
def base() -> FakeBase:
    return FakeBase(Retrieved((FEE, DOGS)))


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def session(tmp_path: Path, client: FakeClient, base: FakeBase) -> Iterator[Session]:
    paths = Paths.under(tmp_path / "data").ensure()
    session = KnowingSession(History.open(paths.database, paths.locks), client, Settings(), paths)
    session.fake = base
    yield session
    session.close()


def ended(events: Iterator[SessionEvent]) -> Answered:
    last = list(events)[-1]
    assert isinstance(last, Answered)
    return last


def found_by(events: Iterator[SessionEvent]) -> Found:
    (found,) = [event for event in events if isinstance(event, Found)]
    return found


def streamed(events: list[SessionEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def test_documents_are_kept_with_the_question_before_the_engine_is_asked(
    session: Session, client: FakeClient
) -> None:
    kinds = []
    for event in session.send(None, "What is the fee?", KB):
        kinds.append(type(event))
        if isinstance(event, Found):
            assert client.submits == []
            kept = session.history.message(event.user_message_id).sources
            assert kept == event.sources
            assert event.passages == (FEE, DOGS)
    assert kinds[:4] == [Saved, Searching, Found, Started]
    (submit,) = client.submits
    content = submit.messages[-1].content
    assert content.endswith("\n\nQuestion:\nWhat is the fee?")
    assert "The annual fee is 1,200 euros." in content
    assert "fees.md:10-12" in content


def test_each_text_of_a_document_stands_between_two_marks(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    found = found_by(session.send(None, "Fee?", KB))
    mark = found.sources.mark
    assert len(mark) == 8
    assert not any(mark in one.text for one in found.passages)
    fence = f"\n{mark}\n"
    _, first, _, second, rules = client.submits[-1].messages[-1].content.split(fence)
    assert FEE.text in first
    assert DOGS.text in second
    assert "Question:" in rules
    assert "Question:" not in first + second
    again = found_by(session.send(None, "Fee?", KB))
    assert again.sources.mark != mark


def test_a_later_prompt_holds_the_same_bytes(session: Session, client: FakeClient) -> None:
    first = ended(session.send(None, "What is the fee?", KB))
    ended(session.send(first.chat_id, "And dogs?", KB))
    ended(session.send(first.chat_id, "Thanks."))
    one, two, three = (submit.messages for submit in client.submits)
    assert two[:1] == one
    assert three[: len(two)] == two
    assert three[-1].content == "Thanks."


@pytest.mark.parametrize(
    ("said", "shown", "numbers"),
    [
        ("1,200 euros [1].", "1,200 euros [1].", [1]),
        ("1,200 euros [7].", "1,200 euros.", []),
        ("1,200 euros [1, 7] and dogs [2][0].", "1,200 euros [1] and dogs [2].", [1, 2]),
        ("x[9] = `y[9]` [1]", "x = `y[9]` [1]", [1]),
        ("cut [1] [9", "cut [1]", [1]),
        ("From 2024 [2024] on【2】", "From 2024 [2024] on【2】", [2]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_no_number_without_a_document_is_ever_shown(
    session: Session, client: FakeClient, said: str, shown: str, numbers: list[int], size: int
) -> None:
    client.script = answers(*(said[i : i + size] for i in range(0, len(said), size)))
    events = list(session.send(None, "What is the fee?", KB))
    answered = events[-1]
    assert isinstance(answered, Answered)
    assert streamed(events) == answered.result.text == answered.message.text == shown
    assert [one.number for one in answered.message.citations] == numbers
    # The model's own words stay in later prompts: their ids are in the cache.
    ended(session.send(answered.chat_id, "More?"))
    assert client.submits[-1].messages[-2].content == said


def test_answers_without_documents_are_left_alone(session: Session, client: FakeClient) -> None:
    client.script = answers("a [1", "2] b [", "x")
    answered = ended(session.send(None, "Hello?"))
    assert (answered.message.text, answered.message.citations) == ("a [12] b [x", ())


def test_a_citation_says_where_it_is_from_and_whether_it_is_there(
    session: Session, client: FakeClient
) -> None:
    client.script = answers("The fee is 1200 euros [1]. Dogs cost 90 dollars [2].")
    fee, dogs = ended(session.send(None, "What is the fee?", KB)).message.citations
    assert (fee.place, fee.first_line, fee.last_line) == ("fees.md:10-12", 11, 11)
    assert FEE.text[fee.start : fee.end] == "The annual fee is 1,200 euros."
    assert (fee.supported, dogs.supported) == (True, False)


def test_a_refusal_asks_no_model(session: Session, client: FakeClient, base: FakeBase) -> None:
    base.found = Retrieved((), is_refused=True, reason="3 files hold nothing about this.")
    events = list(session.send(None, "Who won the cup?", KB))
    answered = events[-1]
    assert isinstance(answered, Answered)
    assert client.submits == []
    assert streamed(events) == answered.result.text == base.found.reason
    assert (answered.message.status, answered.result.token_ids) == ("complete", ())
    # Once the documents say something, the same question is answered.
    base.found = Retrieved((DOGS,))
    again = ended(session.regenerate(answered.message_id, KB))
    assert again.result.text == "Hello."
    assert DOGS.text in client.submits[-1].messages[-1].content


def test_another_answer_has_the_same_documents(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    first = ended(session.send(None, "What is the fee?", KB))
    base.found = Retrieved(())
    ended(session.regenerate(first.message_id, KB))
    assert client.submits[0].messages == client.submits[1].messages
    assert len(base.asked) == 1


def test_an_answer_that_goes_on_is_checked_as_one(session: Session, client: FakeClient) -> None:
    client.script = answers("1,200 euros [", reason="length")
    first = ended(session.send(None, "What is the fee?", KB))
    client.script = answers("9] a year [1].")
    whole = ended(session.continue_answer(first.message_id)).message
    assert whole.text == "1,200 euros a year [1]."
    assert [one.number for one in whole.citations] == [1]


def test_a_search_that_fails_ends_the_answer_in_words(
    session: Session, client: FakeClient, base: FakeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Retrieved:
        raise OSError(5, "Input/output error", "/data/index")

    monkeypatch.setattr(base, "query", broken)
    *_, last = session.send(None, "Fee?", KB)
    assert isinstance(last, Failed)
    assert "index" in last.cause.text
    assert [one.status for one in session.history.path(1)] == ["complete", "error"]
    assert client.submits == []


def test_a_question_cancelled_while_searching_asks_no_model(
    session: Session, client: FakeClient
) -> None:
    events = session.send(None, "Fee?", KB)
    for event in events:
        if isinstance(event, Searching):
            session.cancel()
        last = event
    assert isinstance(last, Answered)
    assert (last.result.finish_reason, last.message.status) == ("cancelled", "stopped")
    assert client.submits == []


def test_documents_take_at_most_half_of_the_context(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    """The fake client counts a token a character, its context holds 2,048."""
    base.found = Retrieved(
        tuple(passage(f"{number} " * 100, f"{number}.md", score=number) for number in range(1, 9))
    )
    found = found_by(session.send(None, "Fee?", KB))
    names = [one.name for one in found.passages]
    assert names == ["7.md", "8.md"]
    assert [one.name for one in found.sources.unused] == [f"{n}.md" for n in range(6, 0, -1)]
    assert len(prefix(found.sources)) <= 1024
    assert base.asked[-1][1] < base.asked[0][1]
    base.found = Retrieved((passage("long words " * 500),))
    found = found_by(session.send(None, "Fee?", KB))
    (only,) = found.passages
    assert len(prefix(found.sources)) <= 1024
    assert base.found.passages[0].text.startswith(only.text)
    assert only.end == only.start + len(only.text)


def test_a_small_collection_stands_in_the_conversation_once(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    assert client.now is not None
    client.now = replace(client.now, ctx=16_384)
    base.index = FakeIndex({"b.md": "Bees hum.", "a.md": "Ants walk."})
    base.found = Retrieved((passage("Bees hum.", "b.md"),))
    client.script = answers("They hum [2].")
    first = ended(session.send(None, "What do bees do?", KB))
    second = ended(session.send(first.chat_id, "And ants?", KB))
    assert [submit.kind for submit in client.submits] == ["pin", "answer", "answer"]
    begun, one, two = (submit.messages[-1].content for submit in client.submits)
    assert one == begun + "What do bees do?"
    assert one.index("Ants walk.") < one.index("Bees hum.")
    assert "Ants walk." not in two
    assert two.endswith("And ants?")
    (citation,) = second.message.citations
    assert citation.path == "/docs/b.md"
    # Another chat has the same documents before its question, byte for byte.
    ended(session.send(None, "And bees?", KB))
    pin, three = client.submits[-2:]
    assert three.messages[-1].content == begun + "And bees?"
    assert pin.conversation == client.submits[0].conversation != three.conversation


def test_a_collection_comes_again_when_the_conversation_outgrows_the_context(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    assert client.now is not None
    client.now = replace(client.now, ctx=4096)
    base.index = FakeIndex({"a.md": "Ants walk. " * 60})
    base.found = Retrieved((passage("Ants walk.", "a.md"),))
    chat = ended(session.send(None, "Ants?", KB)).chat_id
    client.script = answers("They walk. " * 250)
    ended(session.send(chat, "Tell me all about ants.", KB))
    ended(session.send(chat, "And?", KB))
    contents = [one.messages[-1].content for one in client.submits if one.kind == "answer"]
    assert ["Ants walk." in content for content in contents] == [True, False, True]
