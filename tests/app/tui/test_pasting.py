"""Laws of pasting: one draft, nothing sent, nothing lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from textual import events

from app.attached import Attachment
from app.messages import ChatChosen
from app.pasting import END, START, PasteReader
from app.store.draft import KeptDraft, draft_of
from app.widgets.pastes import Pastes, normal_lines
from tests.app.tui.fakes import Script, ScriptedClient

Stage = Callable[..., Any]

LINES = "\r".join(f"line {number}" for number in range(40)) + "\r"


def read(*chunks: str, gap: float = 0.001) -> list[tuple[str, str]]:
    reader = PasteReader()
    pieces = []
    for index, chunk in enumerate(chunks):
        pieces += reader.feed(chunk, index * gap)
    pieces += reader.flush()
    return [(piece.kind, piece.text) for piece in pieces]


def test_raw_lines_are_one_paste() -> None:
    assert read(LINES) == [("paste", LINES)]


def test_raw_lines_cut_anywhere_never_contain_an_enter_key() -> None:
    for cut in range(8, len(LINES)):
        pieces = read(LINES[:cut], LINES[cut:])
        assert "".join(text for _, text in pieces) == LINES
        assert [text for kind, text in pieces if kind == "keys" and "\r" in text[:-1]] == []


def test_typed_keys_stay_keys() -> None:
    typed = ["h", "i", "\r", "\x1b[A", "\x1b", "\t", "\x7f"]
    assert read(*typed, gap=0.2) == [("keys", key) for key in typed]


def test_a_word_and_enter_in_one_read_is_a_message() -> None:
    assert read("hello\r") == [("keys", "hello\r")]


def test_a_long_line_and_enter_in_one_read_is_a_message() -> None:
    assert read("x" * 200 + "\r") == [("paste", "x" * 200), ("keys", "\r")]


def test_a_paste_that_contains_the_end_of_paste_sends_nothing() -> None:
    pieces = read(f"{START}a{END}\rb\rc\r{END}")
    assert [kind for kind, _ in pieces] == ["paste", "paste"]
    assert [text for _, text in pieces] == ["a", "\rb\rc\r"]


@given(st.text(st.characters(blacklist_characters="\x00"), max_size=300), st.data())
def test_brackets_give_the_text_whole_however_it_is_cut(text: str, data: st.DataObject) -> None:
    text = text.replace(END, "").replace(START, "").replace("\x1b", "")
    stream = START + text + END
    cuts = sorted(data.draw(st.lists(st.integers(3, len(stream)), max_size=4)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*[chunk for chunk in chunks if chunk]) == [("paste", text)]


def test_a_megabyte_is_one_paste() -> None:
    text = "x" * 1_000_000
    stream = START + text + END
    chunks = [stream[i : i + 65_536] for i in range(0, len(stream), 65_536)]
    assert read(*chunks) == [("paste", text)]


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=4))
def test_labels_stand_for_their_texts(texts: list[str]) -> None:
    pastes = Pastes()
    labels = [pastes.fold(text) for text in texts]
    assert len(set(labels)) == len(labels)
    assert pastes.whole(" and ".join(labels)) == " and ".join(texts)


def test_a_counted_label_still_stands_for_its_text() -> None:
    pastes = Pastes()
    label = pastes.count(pastes.fold("a\n" * 2139 + "a"), 18_021)
    assert label == "[pasted 2,140 lines · 18k tokens]"
    assert pastes.whole(label) == "a\n" * 2139 + "a"


async def test_forty_raw_lines_are_one_draft(stage: Stage) -> None:
    async with stage() as it:
        for key in LINES:
            it.app.post_message(events.Key("enter" if key == "\r" else key, key).set_sender(it.app))
        await it.until(lambda: it.prompt.text.count("\n") == 40)
        assert it.path() == []
        assert it.prompt.text == normal_lines(LINES)


async def test_a_paste_sends_nothing_and_is_sent_whole(stage: Stage) -> None:
    text = "a\r\nb\tc\r\n" * 1_000
    async with stage() as it:
        it.app.post_message(events.Paste(text))
        await it.until(lambda: "[pasted 2,001 lines" in it.prompt.text)
        await it.until(lambda: "tokens]" in it.prompt.text)
        assert it.path() == []
        await it.ask(" What is it?")
        assert it.path()[0].text == normal_lines(text) + " What is it?"


async def test_a_megabyte_in_one_line_becomes_a_chip(stage: Stage) -> None:
    async with stage() as it:
        it.app.post_message(events.Paste("x" * 1_000_000))
        await it.until(lambda: "[pasted 1,000,000 characters" in it.prompt.text)
        assert len(it.prompt.text) < 100


async def test_a_paste_while_an_answer_comes_is_a_draft_and_submits_nothing(stage: Stage) -> None:
    gate = threading.Event()
    client = ScriptedClient([Script(pieces=("First. ", "Last."), gate=gate)])
    async with stage(client=client) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: it.transcript.last_answer and "First." in it.text())
        it.app.post_message(events.Paste("one\ntwo\n"))
        await it.until(lambda: it.prompt.text == "one\ntwo\n")
        for key in LINES:
            it.app.post_message(events.Key("enter" if key == "\r" else key, key).set_sender(it.app))
        await it.until(lambda: it.prompt.text == "one\ntwo\n" + normal_lines(LINES))
        it.app.post_message(events.Paste("x" * 100_000))
        await it.until(lambda: it.prompt.text.endswith("tokens]"))
        assert it.screen.answering.run is not None
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        await it.pilot.pause()
        assert len(client.submits) == 1
        assert [m.text for m in it.path()] == ["Go.", "First. Last."]
        draft = it.prompt.whole
        assert draft == "one\ntwo\n" + normal_lines(LINES) + "x" * 100_000
        await it.until(lambda: it.session.history.draft(it.screen.chat.id).text == draft)


async def test_enter_while_an_answer_comes_keeps_the_draft(stage: Stage) -> None:
    gate = threading.Event()
    client = ScriptedClient([Script(pieces=("First. ", "Last."), gate=gate)])
    async with stage(client=client) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: it.transcript.last_answer and "First." in it.text())
        it.app.post_message(events.Paste("y" * 100_000))
        await it.until(lambda: it.prompt.text.endswith("tokens]"))
        await it.pilot.press("enter")
        await it.until(lambda: any("esc stops it" in line for line in it.told))
        assert it.prompt.whole == "y" * 100_000
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        assert len(client.submits) == 1


async def test_backspace_takes_a_whole_chip(stage: Stage) -> None:
    async with stage() as it:
        it.app.post_message(events.Paste("line\n" * 100))
        await it.until(lambda: "tokens]" in it.prompt.text)
        it.prompt.move_cursor(it.prompt.document.end)
        await it.pilot.press("backspace")
        assert it.prompt.text == ""


async def test_a_chip_expands_to_its_text(stage: Stage) -> None:
    async with stage() as it:
        it.app.post_message(events.Paste("line\n" * 100))
        await it.until(lambda: "tokens]" in it.prompt.text)
        await it.pilot.press("alt+x")
        assert it.prompt.text == "line\n" * 100


async def test_control_characters_of_a_paste_do_not_reach_the_screen(stage: Stage) -> None:
    async with stage() as it:
        it.app.post_message(events.Paste("a\x1b]52;c;eA==\x07b\x00"))
        await it.until(lambda: "b" in it.prompt.text)
        assert "\x1b" not in it.text()
        assert "\x07" not in it.text()


async def test_the_draft_of_each_chat_is_kept(stage: Stage) -> None:
    async with stage(chats=[[("Q", "A")]]) as it:
        await it.until(lambda: "Q" in it.text())
        it.prompt.insert("unsent")
        await it.until(lambda: it.session.history.draft(None).text == "unsent")
        it.screen.post_message(ChatChosen(1))
        await it.until(lambda: it.screen.chat is not None)
        assert it.prompt.text == ""
        it.prompt.insert("other")
        await it.pilot.press("ctrl+n")
        await it.until(lambda: it.prompt.text == "unsent")
        assert it.session.history.draft(1).text == "other"


PASTED = "Obey me.\n" * 30


@given(
    st.lists(st.tuples(st.text("wh \n", min_size=1), st.sampled_from(["", "a.txt"])), max_size=4)
)
def test_a_draft_that_was_kept_is_the_draft_that_was_left(pieces: list[tuple[str, str]]) -> None:
    before, after = Pastes(), Pastes()
    shown = "".join(f"why {before.fold(text, name)}" for text, name in pieces) + " then"
    kept = before.draft(shown)
    again = after.fold_draft(kept)
    assert kept.text == before.whole(shown) == after.whole(again)
    assert after.apart(again) == before.apart(shown)
    assert after.draft(again) == kept


def test_a_draft_that_was_changed_elsewhere_keeps_the_pastes_that_stand_in_it() -> None:
    one, two = Attachment("", PASTED), Attachment("a.txt", "Ants.")
    whole = f"{one.labelled} and {two.labelled}"
    ((start, end),) = [
        (one.start, one.end) for one in draft_of(f"So {whole[9:]}", (one, two)).pasted
    ]
    assert f"So {whole[9:]}"[start:end] == two.labelled
    assert draft_of("Nothing of it", (one, two)) == KeptDraft("Nothing of it")


async def test_what_was_pasted_stays_pasted_in_a_draft_that_is_opened_again(stage: Stage) -> None:
    client = ScriptedClient([Script(("Yes.",)), Script(("No.",))])
    async with stage(client=client, chats=[[("Q", "A")]]) as it:
        await it.until(lambda: "Q" in it.text())
        it.app.post_message(events.Paste(PASTED))
        await it.until(lambda: "tokens]" in it.prompt.text)
        it.prompt.insert("What is that?")
        await it.until(lambda: it.session.history.draft(None).text.endswith("What is that?"))
        it.screen.post_message(ChatChosen(1))
        await it.until(lambda: it.screen.chat is not None and not it.prompt.text)
        await it.pilot.press("ctrl+n")
        await it.until(lambda: "[pasted" in it.prompt.text)
        assert it.prompt.whole == f"{PASTED}What is that?"
        await it.pilot.press("enter")
        await it.until(lambda: len(client.submits) == 1 and it.screen.answering.run is None)
        (first,) = [one.content for one in client.submits[-1].messages]
        assert first.startswith("Text to read, between << and >>")
        assert first.endswith(">>\n\nWhat is that?")
        # The last message that is brought back and sent again is no other.
        await it.pilot.press("up")
        await it.until(lambda: "[pasted" in it.prompt.text)
        await it.pilot.press("enter")
        await it.until(lambda: len(client.submits) == 2)
        assert client.submits[-1].messages[-1].content == first


async def test_up_in_an_empty_prompt_brings_the_last_message(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Again?")
        await it.pilot.press("up")
        await it.until(lambda: it.prompt.text == "Again?")
        # It is kept and counted like what is typed.
        await it.until(lambda: it.session.history.draft(1).text == "Again?")
        await it.until(lambda: it.screen.draft.tokens > 0)
