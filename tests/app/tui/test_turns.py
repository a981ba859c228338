"""Laws of branches, selected turns, copying and deleting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.screens.turn_acts import code_blocks
from tests.app.tui.fakes import Script, ScriptedClient

Stage = Callable[..., Any]


def shown(it: Any) -> list[str]:
    return [turn.message.text for turn in it.transcript.turns]


async def test_regenerate_is_a_sibling_and_arrows_switch(stage: Stage) -> None:
    client = ScriptedClient([Script(("one",)), Script(("two",))])
    async with stage(client=client) as it:
        await it.ask("Q")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: shown(it) == ["Q", "two"])
        await it.until(lambda: it.screen.answering.run is None)
        assert "◂ 2/2 ▸" in it.text()
        it.transcript.last_answer.focus()
        await it.pilot.press("left")
        await it.until(lambda: shown(it) == ["Q", "one"])
        assert "◂ 1/2 ▸" in it.text()
        assert [m.text for m in it.path()] == ["Q", "one"]


async def test_the_prompt_sent_is_the_path_on_screen(stage: Stage) -> None:
    client = ScriptedClient([Script(("one",)), Script(("two",)), Script(("three",))])
    async with stage(client=client) as it:
        await it.ask("Q")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: shown(it) == ["Q", "two"] and it.screen.answering.run is None)
        it.transcript.last_answer.focus()
        await it.pilot.press("left")
        await it.until(lambda: shown(it) == ["Q", "one"])
        await it.pilot.press("escape")
        await it.ask("More")
        sent = [(m.role, m.content) for m in client.submits[-1].messages]
        assert sent == [("user", "Q"), ("assistant", "one"), ("user", "More")]
        assert shown(it) == ["Q", "one", "More", "three"]


async def test_edit_makes_a_sibling_and_keeps_the_old_question(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Old")
        await it.pilot.press("alt+up", "alt+up", "e")
        assert it.prompt.text == "Old"
        it.prompt.text = "New"
        await it.pilot.press("enter")
        await it.until(lambda: shown(it)[:1] == ["New"] and it.screen.answering.run is None)
        first = it.path()[0]
        assert first.text == "New"
        assert len(it.session.history.siblings(first.id)) == 2


async def test_escape_leaves_editing_without_a_change(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Old")
        await it.pilot.press("alt+up", "alt+up", "e", "escape")
        assert it.prompt.text == ""
        await it.ask("Next", turns=4)
        assert [m.text for m in it.path()][::2] == ["Old", "Next"]


@pytest.mark.parametrize("is_sent", [False, True])
async def test_what_was_half_written_is_there_again_after_an_edit(
    stage: Stage, is_sent: bool
) -> None:
    async with stage() as it:
        await it.ask("Old")
        it.prompt.insert("half written")
        await it.pilot.press("alt+up", "alt+up", "e")
        assert it.prompt.text == "Old"
        if is_sent:
            it.prompt.text = "New"
        await it.pilot.press("enter" if is_sent else "escape")
        await it.until(lambda: it.prompt.text == "half written")
        await it.until(lambda: it.session.history.draft(1).text == "half written")
        assert it.path()[0].text == ("New" if is_sent else "Old")


async def test_delete_says_how_many_and_removes_one_subtree(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("A")
        await it.ask("B")
        it.transcript.turns[2].focus()
        await it.pilot.press("d")
        await it.until(lambda: "and the 1 below it" in it.text())
        await it.pilot.press("y")
        await it.until(lambda: shown(it) == ["A", "Hello there."])
        assert [m.text for m in it.path()] == ["A", "Hello there."]


async def test_copy_takes_the_whole_text(stage: Stage) -> None:
    long = "x" * 100_000
    client = ScriptedClient([Script(("```\n", long, "\n```\nand\n```py\nb = 2\n```"))])
    async with stage(client=client) as it:
        copied: list[str] = []
        it.app.copy_to_clipboard = copied.append
        await it.ask("Q")
        await it.pilot.press("alt+up", "c", "u", "u")
        await it.until(lambda: len(copied) == 3)
        assert copied[0] == client_text(it)
        assert copied[1:] == [long, "b = 2"]
        await it.until(lambda: any("Copied 5 characters" in line for line in it.told))


def client_text(it: Any) -> str:
    text: str = it.path()[-1].text
    return text


async def test_nothing_reaches_the_clipboard_by_itself(stage: Stage) -> None:
    async with stage() as it:
        copied: list[str] = []
        it.app.copy_to_clipboard = copied.append
        await it.ask("Q")
        assert copied == []


async def test_a_branch_cannot_change_under_a_running_answer(stage: Stage) -> None:
    gate = threading.Event()
    client = ScriptedClient([Script(("one",)), Script(("two", "x"), gate=gate)])
    async with stage(client=client) as it:
        await it.ask("Q")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: shown(it) == ["Q", ""])
        it.screen.acts.branch(it.transcript.last_answer.message.id, -1)
        await it.until(lambda: any("Branches" in line for line in it.told))
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        assert it.path()[-1].text == "twox"


async def test_details_name_model_seed_and_reuse(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Q")
        await it.pilot.press("f2")
        await it.until(lambda: it.app.screen is not it.screen)
        text = it.text()
        for word in ("9d3ab27c", "Q4_1", "5f0c8a1e", "42", "412 reused", "f16"):
            assert word in text


def test_code_blocks_are_whole_whatever_their_fence() -> None:
    text = "a\n```py\nx\n\ny\n```\n~~~\n```\n~~~\n````\n```\n````\n```\nopen"
    assert code_blocks(text) == ["x\n\ny", "```", "```", "open"]
