"""Laws of answers from documents, over a scripted engine, scripted searches and a real database."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from app.attached import Attachment, split_paste
from app.attached_text import AttachedText
from app.grounding import NOT_ALL_READ, Found, Searching
from app.knowledge.base import KnowledgeBase
from app.knowledge.fitting import budget
from app.knowledge.followup import is_followup
from app.knowledge.passage import Retrieved
from app.knowledge.prompt import prefix
from app.paths import Paths
from app.session import Answered, Options, Saved, Session, SessionEvent
from app.settings import KnowledgeSettings, Settings
from app.store.history import History
from app.widgets.pastes import Pastes
from engine.events import Delta, Event, Failed, Finished, Started
from engine.messages import Submit
from tests.app.fake_base import FakeBase, FakeIndex, passage
from tests.app.fake_client import FakeClient, answers, result

FEE = passage("# Fees\nThe annual fee is 1,200 euros.\nIt is due in March.", "fees.md", 10)
DOGS = passage("Dogs stay out of the garden after 10 pm.", "rules.md")
KB = Options(kb="work")


@pytest.fixture
def base() -> FakeBase:
    return FakeBase(Retrieved((FEE, DOGS)))


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def session(
    tmp_path: Path, client: FakeClient, base: FakeBase, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    """Every name is the test's base."""
    paths = Paths.under(tmp_path / "data").ensure()
    session = Session(History.open(paths.database, paths.locks), client, Settings(), paths)
    monkeypatch.setattr(session.knowledge, "get", lambda name: base)
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
    content = client.submits[-1].messages[-1].content
    _, first, _, second, rules = re.split(f"<<{mark}\n|\n{mark}>>\n", content)
    assert FEE.text in first
    assert DOGS.text in second
    assert "Question:" in rules
    assert "Question:" not in first + second
    again = found_by(session.send(None, "Fee?", KB))
    assert again.sources.mark != mark


def test_a_later_prompt_holds_the_same_bytes(session: Session, client: FakeClient) -> None:
    first = ended(session.send(None, "What is the fee?", KB))
    ended(session.send(first.chat_id, "Where may dogs walk after ten?", KB))
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
    assert [one.number for one in answered.message.citations if one.named] == numbers
    # The model's own words stay in later prompts: their ids are in the cache.
    ended(session.send(answered.chat_id, "More?"))
    assert client.submits[-1].messages[-2].content == said


def test_a_mark_that_the_model_repeats_is_never_shown(session: Session, client: FakeClient) -> None:
    def script(submit: Submit, client: FakeClient) -> Iterator[Event]:
        marks = re.findall("<<([0-9a-f]{8})\n", submit.messages[-1].content)
        said = (f"<<{marks[0][:3]}", f"{marks[0][3:]}\n1,200 euros [1].\n{marks[0].upper()}>", ">")
        return answers(*said)(submit, client)

    client.script = script
    events = list(session.send(None, "What is the fee?", KB))
    answered = events[-1]
    assert isinstance(answered, Answered)
    assert streamed(events) == answered.message.text == "\n1,200 euros [1].\n"
    assert answered.result.text == answered.message.text


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


def test_a_base_that_is_still_being_read_is_told(session: Session, base: FakeBase) -> None:
    base.is_read = False
    base.found = Retrieved((), is_refused=True, reason="3 files hold nothing about this.")
    refused = ended(session.send(None, "Who won the cup?", KB))
    told = f"{base.found.reason} {NOT_ALL_READ}"
    assert refused.result.text == told
    assert session.history.message(refused.user_message_id).sources.reason == told


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
    assert len(prefix(found.sources)) <= 1024
    more = (*found.passages, base.found.passages[7 - len(names)])
    assert len(prefix(replace(found.sources, passages=more))) > 1024
    unused = [one.name for one in found.sources.unused]
    assert names == [f"{number}.md" for number in range(9 - len(names), 9)]
    assert unused == [f"{number}.md" for number in range(8 - len(names), 0, -1)]
    assert base.asked[-1][1] < base.asked[0][1]
    base.found = Retrieved((passage("long words " * 500),))
    found = found_by(session.send(None, "Fee?", KB))
    (only,) = found.passages
    assert len(prefix(found.sources)) <= 1024
    assert base.found.passages[0].text.startswith(only.text)
    assert only.end == only.start + len(only.text)


@pytest.mark.parametrize(
    ("context", "used", "tokens"),
    [(8192, 0, 2048), (8192, 4000, 1429), (8192, 6100, 512), (2048, 0, 1024), (64, 60, 8)],
)
def test_the_more_was_said_the_less_documents_take(context: int, used: int, tokens: int) -> None:
    assert budget(context, used) == tokens


def test_a_small_collection_stands_in_the_conversation_once(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    assert client.now is not None
    client.now = replace(client.now, ctx=16_384)
    base.index = FakeIndex({"b.md": "Bees hum.", "a.md": "Ants walk."})
    base.found = Retrieved((passage("Bees hum.", "b.md"),))
    client.script = answers("They hum [2].")
    first = ended(session.send(None, "What do bees do?", KB))
    second = ended(session.send(first.chat_id, "How do most ants move around?", KB))
    assert [submit.kind for submit in client.submits] == ["pin", "answer", "answer"]
    begun, one, two = (submit.messages[-1].content for submit in client.submits)
    assert one == begun + "What do bees do?"
    assert one.index("Ants walk.") < one.index("Bees hum.")
    assert "Ants walk." not in two
    assert two.endswith("How do most ants move around?")
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


# ---- follow-up questions


def test_a_question_that_leans_on_the_last_turn_is_made_whole_and_searched_with_both(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    first = ended(session.send(None, "Who pays the fee?", KB))
    client.script = answers('Question: "When is the annual fee due?"')
    ended(session.send(first.chat_id, "When is it due?", KB))
    aside, answer = client.submits[1:]
    assert (aside.kind, answer.kind) == ("aside", "answer")
    assert (aside.max_tokens, aside.sampling.temperature) == (48, 0.0)
    # A fork of the chat: the same beginning, the instruction at the end.
    assert aside.messages[:-1] == answer.messages[:-1]
    assert "When is it due?" in aside.messages[-1].content
    assert base.asked[-1][0] == "When is it due?"
    assert base.asked[-1][2] == ("When is the annual fee due?",)
    assert session.history.path(first.chat_id)[-2].text == "When is it due?"


def test_without_rewriting_old_words_help(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    plain = replace(KB, documents=KnowledgeSettings(rewrite=False))
    first = ended(session.send(None, "Who pays the annual subscription?", plain))
    assert base.asked[-1][2] == ()
    ended(session.send(first.chat_id, "And when is it due?", plain))
    assert "subscription" in base.asked[-1][2]
    assert [submit.kind for submit in client.submits] == ["answer", "answer"]


@pytest.mark.parametrize(
    ("question", "leans"),
    [
        ("When is it due?", True),
        ("And dogs?", True),
        ("它什么时候到期？", True),
        ("這個花園俱樂部的年費什麼時候到期？", True),
        ("为什么？", True),
        ("What is the annual fee of the garden club?", False),
        ("花园俱乐部的年费是多少？", False),
        ("Wie hoch sind Beitrag und Kaution im Gartenverein?", False),
    ],
)
def test_questions_that_lean_on_others_are_known(question: str, leans: bool) -> None:
    assert is_followup(question) is leans


@pytest.mark.parametrize(
    "text", ["Thanks!", "thank you very much", "Ok, danke", "谢谢", "謝謝", "Hello :)"]
)
def test_courtesies_are_not_searched_for(
    session: Session, client: FakeClient, base: FakeBase, text: str
) -> None:
    base.found = Retrieved((), is_refused=True, reason="3 files hold nothing about this.")
    answered = ended(session.send(None, text, KB))
    assert answered.message.citations == ()
    assert [submit.messages[-1].content for submit in client.submits] == [text]
    assert base.asked == []


@pytest.mark.parametrize("text", ["Hello Kitty?", "ok who pays", "great fees", "Kaution"])
def test_what_may_ask_for_something_is_searched_for(
    session: Session, client: FakeClient, base: FakeBase, text: str
) -> None:
    base.found = Retrieved((), is_refused=True, reason="3 files hold nothing about this.")
    ended(session.send(None, text, KB))
    assert client.submits == []
    assert len(base.asked) == 1


# ---- attached text

LONG = "\n\n".join(f"Paragraph {number} is about bees and honey." for number in range(200))


def throw_away(
    monkeypatch: pytest.MonkeyPatch, base: FakeBase
) -> list[tuple[Path, dict[str, str]]]:
    made = []

    def temporary(folder: Path, texts: dict[str, str], embedder: object = None) -> FakeBase:
        made.append((folder, texts))
        return base

    monkeypatch.setattr(KnowledgeBase, "temporary", temporary)
    return made


def test_short_text_stands_whole_before_the_question(session: Session, client: FakeClient) -> None:
    attached = (Attachment("a.txt", "Ants walk."), Attachment("", "Bees hum."))
    answered = ended(session.send(None, "Why?", Options(attached=attached)))
    whole = 'File "a.txt":\nAnts walk.\n\nBees hum.\n\nWhy?'
    assert session.history.message(answered.user_message_id).text == whole
    content = client.submits[-1].messages[-1].content
    assert [content.index(one) for one in ("Ants walk.", "Bees hum.", "Why?")] == sorted(
        content.index(one) for one in ("Ants walk.", "Bees hum.", "Why?")
    )
    (notice,) = answered.result.notices
    assert "read whole" in notice
    assert answered.message.info is not None
    assert answered.message.info.notices == (notice,)


def test_long_text_is_searched_in_a_collection_that_goes(
    session: Session, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = FakeBase(Retrieved((passage("Paragraph 7 is about bees.", "bees.txt"),)))
    made = throw_away(monkeypatch, base)
    options = Options(attached=(Attachment("bees.txt", LONG),))
    answered = ended(session.send(None, "What is paragraph 7 about?", options))
    ((folder, texts),) = made
    assert texts == {"bees.txt": LONG}
    content = client.submits[-1].messages[-1].content
    assert "Paragraph 7 is about bees." in content
    assert "Paragraph 8" not in content
    question = session.history.message(answered.user_message_id)
    assert (question.text, question.sources and question.sources.base) == (
        "What is paragraph 7 about?",
        "",
    )
    assert "attach=whole" in answered.result.notices[0]
    # A later question of the chat searches the same text; other chats do not.
    ended(session.send(answered.chat_id, "What is paragraph 9 of the text about?"))
    assert base.asked[-1][0] == "What is paragraph 9 of the text about?"
    ended(session.send(None, "What is paragraph 10 of the text about?"))
    assert len(base.asked) == 2
    assert folder.is_dir()
    session.close()
    assert base.closed
    assert not folder.exists()


@pytest.mark.parametrize(("question", "is_read_whole"), [("Who hums?", False), ("Shorten.", True)])
def test_attached_text_is_never_said_to_say_nothing(
    session: Session,
    client: FakeClient,
    monkeypatch: pytest.MonkeyPatch,
    question: str,
    is_read_whole: bool,
) -> None:
    """A question gets the best there is, an order gets all."""
    some = tuple(passage(f"Paragraph {number}.", "bees.txt") for number in (9, 4))
    base = FakeBase(Retrieved(some, is_refused=True), index=FakeIndex({"bees.txt": LONG}))
    throw_away(monkeypatch, base)
    ended(session.send(None, question, Options(attached=(Attachment("bees.txt", LONG),))))
    kinds = {submit.kind for submit in client.submits}
    assert kinds == ({"aside", "answer"} if is_read_whole else {"answer"})
    if not is_read_whole:
        assert "Paragraph 4." in client.submits[-1].messages[-1].content


def test_a_later_message_that_is_not_about_the_text_goes_without_it(
    session: Session, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = FakeBase(Retrieved((passage("Paragraph 7.", "bees.txt"),)))
    throw_away(monkeypatch, base)
    options = Options(attached=(Attachment("bees.txt", LONG),))
    chat = ended(session.send(None, "What is paragraph 7 about?", options)).chat_id
    base.found = Retrieved((DOGS,), is_refused=True)
    answered = ended(session.send(chat, "Thank you very much for this help."))
    assert session.history.message(answered.user_message_id).sources is None
    assert client.submits[-1].messages[-1].content == "Thank you very much for this help."
    assert {submit.kind for submit in client.submits[1:]} <= {"aside", "answer"}
    asides = [submit for submit in client.submits[1:] if submit.kind == "aside"]
    assert all("Rewrite" in submit.messages[-1].content for submit in asides)


def test_a_refusal_that_is_told_to_go_on_is_not_searched_again(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    base.found = Retrieved((), is_refused=True, reason="Nothing there.")
    refused = ended(session.send(None, "Who won the cup?", KB))
    client.script = answers(" Ask me otherwise.")
    gone_on = ended(session.continue_answer(refused.message_id, KB))
    assert gone_on.message.text == "Nothing there. Ask me otherwise."
    assert len(base.asked) == 1


@pytest.mark.parametrize(
    ("attach", "text", "is_searched"),
    [
        ("whole", LONG, False),
        ("search", "Short.", True),
        ("auto", "x" * 1024, False),
        ("auto", "x" * 1025, True),
        ("auto", "x" * 40_000, True),
    ],
)
def test_a_person_can_choose_how_text_is_read(
    session: Session,
    client: FakeClient,
    base: FakeBase,
    monkeypatch: pytest.MonkeyPatch,
    attach: Literal["auto", "whole", "search"],
    text: str,
    is_searched: bool,
) -> None:
    """The fake client counts a token a character; its context holds 2,048."""
    made = throw_away(monkeypatch, base)
    options = Options(attached=(Attachment("", text),), documents=KnowledgeSettings(attach=attach))
    ended(session.send(None, "Why is that so?", options))
    assert bool(made) is is_searched
    assert (text in client.submits[-1].messages[-1].content) is not is_searched


def test_a_long_paste_has_its_question_at_an_end() -> None:
    assert split_paste("Short.\n\nWhy?") == ("Short.\n\nWhy?", ())
    assert split_paste(f"{LONG}\n\nWhy?") == ("Why?", (Attachment("", LONG),))
    assert split_paste(f"Why?\n\n{'x' * 5000}") == ("Why?", (Attachment("", "x" * 5000),))
    assert split_paste("x" * 9000) == ("x" * 9000, ())


# ---- questions about all

MANY = {f"{name}.md": f"Report {name}. {'The year was good. ' * 20}" for name in "abcdef"}


def test_a_question_about_all_is_answered_from_all(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    base.index = FakeIndex(MANY)
    base.found = Retrieved((), is_refused=True, needs_all=True)
    client.script = answers("Five good years.")
    events = list(session.send(None, "Summarise all reports.", KB))
    *parts, answer = client.submits
    assert len(parts) >= 2
    assert {part.kind for part in parts} == {"aside"}
    asked = "".join(part.messages[-1].content for part in parts)
    assert all(text.strip() in asked for text in MANY.values())
    content = answer.messages[-1].content
    assert content.count("Five good years.") == len(parts)
    told = [event.text for event in events if isinstance(event, Searching)]
    assert told[1:] == [f"reading part {n} of {len(parts)}" for n in range(1, len(parts) + 1)]
    last = events[-1]
    assert isinstance(last, Answered)
    assert any(f"in {len(parts)} parts" in notice for notice in last.result.notices)


def test_parts_that_say_nothing_make_a_refusal(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    base.index = FakeIndex(MANY)
    base.found = Retrieved((), is_refused=True, needs_all=True)
    client.script = answers("Nothing.")
    answered = ended(session.send(None, "Count the elephants.", KB))
    assert {submit.kind for submit in client.submits} == {"aside"}
    assert "say nothing" in answered.message.text
    assert answered.message.citations == ()


def test_without_reading_all_the_answer_says_that_parts_were_read(
    session: Session, base: FakeBase
) -> None:
    base.index = FakeIndex(MANY)
    base.found = Retrieved((FEE,), (DOGS,), needs_all=True)
    options = replace(KB, documents=KnowledgeSettings(read_all=False))
    answered = ended(session.send(None, "List all fees.", options))
    assert "only 1 of 2 passages" in answered.result.notices[0]


def test_a_message_with_a_short_paste_goes_as_it_was_written(
    session: Session, client: FakeClient
) -> None:
    written = Options(attached=(Attachment("", "x = 1"),), as_written="Fix x = 1 please")
    answered = ended(session.send(None, "Fix please", written))
    assert session.history.message(answered.user_message_id).text == "Fix x = 1 please"
    assert client.submits[-1].messages[-1].content.endswith("\n\nFix [text] please")


def test_a_paste_in_a_draft_is_told_from_what_is_written() -> None:
    pastes = Pastes()
    first = pastes.fold("a\nb")
    second = pastes.count(pastes.fold("d", "c.txt"), 3)
    draft = f"Compare {first} with\n{second}\n[pasted 9 lines] please."
    file = 'File "c.txt":\nd'
    assert pastes.whole(draft) == f"Compare a\nb with\n{file}\n[pasted 9 lines] please."
    written, attached = pastes.apart(draft)
    assert written == "Compare  with\n\n[pasted 9 lines] please."
    assert attached == (Attachment("", "a\nb"), Attachment("c.txt", "d"))
    # A long draft that was put back is what was written.
    own = pastes.fold("e\nf", is_own=True)
    assert pastes.apart(f"{own} {first}") == ("e\nf", (Attachment("", "a\nb"),))


# ---- the model's judgement


def test_a_judgement_puts_what_helps_before_what_was_found(
    session: Session, client: FakeClient, base: FakeBase
) -> None:
    many = [passage(f"{letter} " * 400, f"{letter}.md", score=1.0) for letter in "abcdef"]
    base.found = Retrieved(tuple(many[:1]), tuple(many[1:]))

    def script(submit: Submit, client: FakeClient) -> Iterator[Event]:
        margin = 6.0 if "d d d" in submit.messages[-1].content else -1.0
        yield Finished(submit.request_id, replace(result("Yes"), margin=margin))

    client.script = script
    options = replace(KB, documents=KnowledgeSettings(rerank=True))
    events = list(session.send(None, "Which letter?", options))
    (found,) = [event for event in events if isinstance(event, Found)]
    assert [one.name for one in found.passages] == ["d.md"]
    assert found.passages[0].reason.endswith("judgement +6.0")
    assert [submit.kind for submit in client.submits] == ["judge"] * 6 + ["answer"]
    told = [event.text for event in events if isinstance(event, Searching)]
    assert told[1:] == [f"judging passage {number} of 6" for number in range(1, 7)]


def test_text_that_a_dead_process_left_goes(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    home = tmp_path / "attached"
    left = home / f"{dead.pid}-localchat-x"
    left.mkdir(parents=True)
    (left / "index.sqlite3").write_text("old")
    living = home / f"{os.getpid()}-localchat-y"
    living.mkdir()
    texts = AttachedText(tmp_path, private=False)
    base = texts.make(1, (Attachment("bees.txt", "Bees hum in the garden."),))
    assert base.query("Who hums?").needs_all is False
    assert not left.exists()
    assert living.exists()
    assert len(list(home.iterdir())) == 2
    texts.close()
    assert list(home.iterdir()) == [living]
