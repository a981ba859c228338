"""Laws of one conversation on screen: what is sent, what is shown, what is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.messages import ChatChosen
from app.screens.page import LinesPage
from app.settings import ChatSettings, Settings
from app.store.conversation import AnswerInfo
from app.widgets.answer import AnswerTurn
from app.widgets.bars import LoadBar, TitleBar
from engine.errors import LocalchatError, ModelNotFound
from engine.events import ErrorInfo
from tests.app.tui.fakes import Script, ScriptedClient

Stage = Callable[..., Any]


def answer(it: Any) -> AnswerTurn:
    turn = it.transcript.last_answer
    assert isinstance(turn, AnswerTurn)
    return turn


async def test_a_message_is_stored_shown_and_answered(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("What is it?")
        assert [(m.role, m.text) for m in it.path()] == [
            ("user", "What is it?"),
            ("assistant", "Hello there."),
        ]
        assert "What is it?" in it.text()
        assert "Hello there." in it.text()
        assert "412 reused · 19 read · 0.14 s · 61 tok/s" in it.text()
        assert it.prompt.text == ""
        assert it.screen.query_one(TitleBar).chat_title == "What is it?"


async def test_all_streamed_text_is_on_screen_and_in_the_copy(stage: Stage) -> None:
    lines = [f"{number}. line {number}\n" for number in range(1, 40)]
    pieces = tuple(text[i : i + 7] for text in ["".join(lines)] for i in range(0, len(text), 7))
    client = ScriptedClient([Script(pieces=pieces)])
    async with stage(size=(100, 60), client=client) as it:
        await it.ask("Count.")
        assert answer(it).text == "".join(lines)
        await it.until(lambda: all(f"line {number}" in it.text() for number in range(1, 40)))


async def test_thinking_is_folded_and_opens(stage: Stage) -> None:
    client = ScriptedClient([Script(reasoning=("A secret ", "thought."))])
    async with stage(client=client) as it:
        await it.ask("Think.")
        assert "▸ thought for" in it.text()
        assert "secret" not in it.text()
        answer(it).focus()
        await it.pilot.press("space")
        await it.until(lambda: "A secret thought." in it.text())


async def test_escape_stops_the_answer_and_keeps_what_came(stage: Stage) -> None:
    gate = threading.Event()
    client = ScriptedClient([Script(pieces=("First. ", "Never."), gate=gate)])
    async with stage(client=client) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: it.transcript.last_answer and "First." in answer(it).text)
        await it.pilot.press("escape")
        await it.until(lambda: it.screen.answering.run is None)
        assert it.path()[-1].status == "stopped"
        assert it.path()[-1].text == "First. "
        await it.until(lambda: "stopped · ctrl+e goes on" in it.text())


async def test_a_cut_answer_says_where_and_goes_on(stage: Stage) -> None:
    client = ScriptedClient(
        [Script(pieces=("one two",), finish="length"), Script(pieces=(" three",))]
    )
    async with stage(client=client) as it:
        await it.ask("Count.")
        assert "cut at 2 tokens · ctrl+e goes on" in it.text()
        await it.pilot.press("ctrl+e")
        await it.until(lambda: it.path()[-1].text == "one two three")
        assert client.submits[-1].kind == "continue"
        await it.until(lambda: answer(it).text == "one two three")
        assert len(it.transcript.turns) == 2


async def test_progress_is_shown_for_long_prompts_only(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    long = Script(("a", "b"), progress=((2100, 3300),), prompt_tokens=3300, reused=0, gate=gate)
    short = Script(("a", "b"), progress=((210, 330),), prompt_tokens=330, reused=0)
    async with stage(client=ScriptedClient([long, short])) as it:
        seen: list[str] = []
        it.prompt.insert("x")
        await it.pilot.press("enter")
        await it.until(lambda: it.transcript.last_answer and answer(it).text == "a")
        turn = answer(it)
        from engine.events import PromptProgress

        turn.progress(PromptProgress("", 210, 330, 60.0))
        assert turn.header.state == "reading 63 % · 210 of 330 tokens · 2 s left"
        assert it.screen.answering.run.shows_progress
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        monkeypatch.setattr(AnswerTurn, "progress", lambda turn, event: seen.append("shown"))
        await it.ask("y")
        assert seen == []


async def test_a_failure_is_one_block_with_a_next_step(stage: Stage) -> None:
    failure = ErrorInfo("failed", "The engine stopped.", "Signal 6.", "Send it again.")
    async with stage(client=ScriptedClient([Script(failure=failure)])) as it:
        await it.ask("Go.")
        shown = it.text()
        assert "The engine stopped." in shown
        assert "Signal 6." in shown
        assert "Send it again." in shown
        assert "Traceback" not in shown
        await it.ask("Again.", turns=4)
        assert it.path()[-1].text == "Hello there."


async def test_a_chat_that_is_opened_again_says_why_its_answer_failed(stage: Stage) -> None:
    failure = ErrorInfo("failed", "It stopped\x1b[2J.", "Signal 6.", "Send it again.")
    client = ScriptedClient([Script(failure=failure), Script(("Better.",))])
    async with stage(client=client) as it:
        await it.ask("Go.")
        chat_id = it.screen.chat.id
        for _ in range(2):
            await it.pilot.press("ctrl+n")
            await it.until(lambda: not it.transcript.turns)
            it.screen.post_message(ChatChosen(chat_id))
            await it.until(lambda: it.screen.chat and it.transcript.turns)
            await it.until(lambda: "Signal 6." in it.text() and "It stopped" in it.text())
            assert "\x1b" not in it.text()
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "Better." in it.text())
        await it.until(lambda: "Signal 6." not in it.text())


async def test_details_say_why_an_answer_failed(stage: Stage) -> None:
    failure = ErrorInfo("failed", "The engine stopped.", "Signal 6.", "Send it again.")
    async with stage(size=(100, 60), client=ScriptedClient([Script(failure=failure)])) as it:
        await it.ask("Go.")
        await it.pilot.press("f2")
        await it.until(lambda: isinstance(it.app.screen, LinesPage))
        assert "The engine stopped.\nSignal 6." in dict(it.app.screen.lines)["error"]


async def test_an_answer_that_went_on_no_longer_says_why_it_had_failed(stage: Stage) -> None:
    client = ScriptedClient([Script(("Half, ",), finish="length"), Script(("whole.",))])
    async with stage(client=client) as it:
        await it.ask("Go.")
        failed = replace(
            answer(it).message,
            info=AnswerInfo(error=ErrorInfo("failed", "The engine stopped.")),
        )
        answer(it).finish(failed)
        await it.until(lambda: "The engine stopped." in it.text())
        await it.pilot.press("ctrl+e")
        await it.until(lambda: it.screen.answering.run is None and "whole." in it.text())
        assert "The engine stopped." not in it.text()


async def test_no_model_shows_how_to_get_one(stage: Stage) -> None:
    client = ScriptedClient(load_error=ModelNotFound("No model was found."))
    async with stage(client=client, wait=False) as it:
        await it.until(lambda: "Looked in" in it.text())
        assert "localchat[starter]" in it.text()
        assert "/model /path/to/model.gguf" in it.text()


async def test_a_load_shows_bytes_and_escape_stops_it(stage: Stage) -> None:
    client = ScriptedClient(load_gate=threading.Event())
    async with stage(client=client, wait=False) as it:
        await it.until(lambda: "68 MB of 107 MB" in it.text())
        await it.pilot.press("escape")
        await it.until(lambda: it.screen.query_one(LoadBar).load is None)
        assert it.screen.loaded is None
        client.load_gate = None
        it.screen.loader.begin("other")
        await it.until(lambda: it.screen.loaded is not None)


async def test_a_message_typed_while_the_model_loads_is_sent_when_it_is_ready(
    stage: Stage,
) -> None:
    gate = threading.Event()
    client = ScriptedClient(load_gate=gate)
    async with stage(client=client, wait=False) as it:
        await it.until(lambda: it.screen.loader.is_running)
        it.prompt.insert("Early.")
        await it.pilot.press("enter")
        await it.until(lambda: it.screen.answering.pending == "Early.")
        assert client.submits == []
        gate.set()
        await it.until(lambda: [m.text for m in it.path()] == ["Early.", "Hello there."])


async def test_a_failed_load_says_why_and_leaves_the_program_usable(stage: Stage) -> None:
    error = LocalchatError("The file ends at 812 MB of 1.1 GB.", "", "Get it again.")
    async with stage(client=ScriptedClient(load_error=error), wait=False) as it:
        await it.until(lambda: "The file ends at 812 MB of 1.1 GB." in it.text())
        assert "Get it again." in it.text()
        await it.pilot.press("f1")
        await it.until(lambda: it.app.screen is not it.screen)


async def test_enter_can_break_the_line_instead(stage: Stage) -> None:
    async with stage(settings=Settings(chat=ChatSettings(enter_sends=False))) as it:
        await it.pilot.press("a", "enter", "b")
        assert it.prompt.text == "a\nb"
        await it.pilot.press("ctrl+j")
        await it.until(lambda: len(it.path()) == 2)
        assert it.path()[0].text == "a\nb"


@pytest.mark.parametrize("draft", ["", "  ", "\n\n", "\u2003\t"])
async def test_an_empty_message_is_not_sent_and_quietly_said(stage: Stage, draft: str) -> None:
    async with stage() as it:
        it.prompt.insert(draft)
        await it.pilot.press("enter")
        await it.until(lambda: "nothing to send yet" in it.text())
        assert it.screen.chat is None
        assert it.session.history.chats() == []
        assert it.client.submits == []
        assert it.told == []
        await it.pilot.press("a")
        await it.until(lambda: "nothing to send yet" not in it.text())
        await it.pilot.press("backspace", "H", "i", "enter")
        await it.until(lambda: len(it.path()) == 2 and it.screen.answering.run is None)
        assert it.path()[0].text.strip() == "Hi"


async def test_used_context_counts_prompt_and_answer(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Hi.")
        assert it.screen.used_tokens == 431 + 2
        assert "433 of 8,192 used" in it.text()


async def test_a_chat_left_while_it_is_answered_is_complete_when_opened_again(
    stage: Stage,
) -> None:
    gate = threading.Event()
    client = ScriptedClient([Script(pieces=("First. ", "Last."), gate=gate)])
    async with stage(client=client) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: it.transcript.last_answer and answer(it).text == "First. ")
        chat_id = it.screen.chat.id
        await it.pilot.press("ctrl+n")
        await it.until(lambda: it.screen.chat is None and not it.transcript.turns)
        it.screen.post_message(ChatChosen(chat_id))
        await it.until(lambda: it.screen.chat and answer(it).text == "First. ")
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        assert answer(it).text == "First. Last."
