"""Laws of sizes: never an exception, always something sensible."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.widgets.answer_text import AnswerText
from app.widgets.bars import Footer
from app.widgets.sidebar import Sidebar
from tests.app.tui.fakes import Script, ScriptedClient

Stage = Callable[..., Any]

WIDE = """| a | b | 漢字 |
|---|---|---|
| 1 | 👨‍👩‍👧‍👦 🇩🇪 1️⃣ | 日本語テキスト |

- नमस्ते
  - 한글

```python
print("漢字" * 30)
```
""".splitlines(keepends=True)

STORM = [(1, 1), (3, 3), (20, 5), (200, 60), (40, 12), (2, 40), (120, 1), (80, 24)]


async def test_a_storm_of_sizes_while_streaming_loses_nothing(stage: Stage) -> None:
    gate = threading.Event()
    script = Script(pieces=tuple(WIDE * 3), gate=gate, pause_s=0.005)
    async with stage(size=(80, 24), client=ScriptedClient([script])) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        for round_number in range(3):
            for width, height in STORM:
                await it.pilot.resize_terminal(width, height)
                if round_number:
                    await it.pilot.pause()
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        await it.pilot.resize_terminal(80, 24)
        assert it.transcript.last_answer.text == "".join(WIDE * 3)
        await it.pilot.pause()
        assert "日本語" in it.text()


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (10, 3), (19, 40), (40, 5)])
async def test_too_small_shows_a_notice_and_recovers(stage: Stage, size: tuple[int, int]) -> None:
    async with stage(size=size) as it:
        assert it.screen.has_class("-too-small")
        await it.pilot.resize_terminal(80, 24)
        await it.pilot.pause()
        assert it.prompt.display
        assert "Everything stays" in it.text()


async def test_40_by_12_is_title_transcript_and_prompt(stage: Stage) -> None:
    async with stage(size=(40, 12)) as it:
        await it.ask("Hi.")
        assert not it.screen.query_one(Sidebar).display
        assert not it.screen.query_one(Footer).display
        assert "Hello there." in it.text()


async def test_80_by_24_folds_the_list_and_brings_it_over(stage: Stage) -> None:
    async with stage(size=(80, 24), chats=[[("Tax letter", "A")]]) as it:
        assert not it.screen.query_one(Sidebar).display
        width = it.transcript.size.width
        await it.pilot.press("ctrl+b")
        await it.until(lambda: "Tax letter" in it.text())
        assert it.transcript.size.width == width
        await it.pilot.press("escape")
        await it.until(lambda: not it.screen.query_one(Sidebar).display)


async def test_the_prompt_grows_to_a_third_of_the_screen(stage: Stage) -> None:
    async with stage(size=(80, 30)) as it:
        assert it.prompt.size.height == 1
        it.prompt.insert("line\n" * 50)
        await it.pilot.pause()
        assert it.prompt.outer_size.height == 9


async def test_the_view_follows_the_end_only_from_the_end(stage: Stage) -> None:
    gate = threading.Event()
    lines = tuple(f"line {number}\n\n" for number in range(60))
    script = Script(pieces=(*lines, "last"), gate=gate)
    async with stage(size=(80, 24), client=ScriptedClient([script])) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: "line 59" in it.text())
        it.transcript.scroll_to(y=5, animate=False, immediate=True)
        it.transcript.release_anchor()
        await it.pilot.pause()
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        await it.pilot.pause()
        assert it.transcript.scroll_y == 5


async def test_long_chats_mount_their_end_and_more_on_the_way_up(stage: Stage) -> None:
    turns = [(f"question {number}", f"answer {number}") for number in range(60)]
    async with stage(size=(80, 24), chats=[turns]) as it:
        from app.messages import ChatChosen

        it.screen.post_message(ChatChosen(1))
        await it.until(lambda: "answer 59" in it.text())
        before = len(it.transcript.turns)
        assert before < 20
        assert "earlier messages" in str(it.transcript._older.render())
        it.transcript.release_anchor()
        it.transcript.scroll_to(y=0, animate=False, immediate=True)
        await it.until(lambda: len(it.transcript.turns) > before)


async def test_themes_change_while_streaming(stage: Stage) -> None:
    gate = threading.Event()
    script = Script(pieces=("```python\n", "x = 1\n", "```\n", "end"), gate=gate)
    async with stage(client=ScriptedClient([script])) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: "x = 1" in it.text())
        for theme in ("localchat-light", "localchat-contrast-dark", "localchat-contrast-light"):
            it.app.theme = theme
            await it.pilot.pause()
        gate.set()
        await it.until(lambda: "end" in it.text())
        assert "x = 1" in it.text()


async def test_lines_that_come_below_the_view_are_counted_and_a_click_goes_there(
    stage: Stage,
) -> None:
    gate = threading.Event()
    lines = "".join(f"{number}. line\n" for number in range(1, 40))
    script = Script(pieces=(lines, lines + "\nThe end."), gate=gate)
    async with stage(size=(100, 24), client=ScriptedClient([script])) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: "39 line" in it.text())
        it.transcript.scroll_to(y=5, animate=False, immediate=True)
        it.transcript.release_anchor()
        await it.pilot.pause()
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        await it.until(lambda: "▾" in it.text() and "new lines" in it.text())
        await it.pilot.click("#new-lines")
        await it.until(lambda: "The end." in it.text() and "new lines" not in it.text())


async def test_a_line_of_a_growing_answer_is_laid_out_once(stage: Stage) -> None:
    gate = threading.Event()
    lines = "".join(f"{number}. line\n" for number in range(1, 40))
    script = Script(pieces=(lines, "The end."), gate=gate)
    async with stage(size=(80, 24), client=ScriptedClient([script])) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: "39 line" in it.text())
        body = it.transcript.last_answer.query_one(AnswerText)
        layouts: list[object] = []
        it.screen.screen_layout_refresh_signal.subscribe(it.transcript, layouts.append)
        for number in range(40, 50):
            body.add(f"{number}. line\n")
            body.draw()
            await it.until(lambda: len(body._lines) == body.size.height)
            await it.pilot.pause(0.1)
        assert "49 line" in it.text()
        assert len(layouts) < 15  # one for each, and what was still under way
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)


async def test_the_tokens_of_a_sent_draft_are_no_longer_shown(stage: Stage) -> None:
    async with stage() as it:
        it.prompt.insert("One two three.")
        await it.until(lambda: "3 tokens" in str(it.prompt.border_subtitle))
        await it.pilot.press("enter")
        await it.until(lambda: it.path() and it.screen.answering.run is None)
        await it.until(lambda: str(it.prompt.border_subtitle).startswith("0 tokens"))
