"""Laws of foreign text: it is shown, it never acts."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.screens.page import ConfirmPage
from app.widgets.answer_text import AnswerText
from engine.events import ErrorInfo
from tests.app.tui.fakes import Script, ScriptedClient

Stage = Callable[..., Any]

EVIL = (
    "[bold red]x[/] [@click=app.quit]go[/] \x1b[2J\x1b]0;title\x07\x9b31m "
    "\u202egnp.exe [/nothing] $(ls) \x1b[?1049l end"
)


def assert_clean(it: Any) -> None:
    bad = [c for c in it.text() if unicodedata.category(c) in ("Cc", "Cs", "Cf") and c != "\n"]
    assert bad == []


async def test_markup_and_sequences_in_every_place_are_only_text(stage: Stage) -> None:
    failure = ErrorInfo("failed", EVIL, EVIL, EVIL)
    client = ScriptedClient([Script((EVIL,), reasoning=(EVIL,)), Script(failure=failure)])
    async with stage(size=(120, 60), client=client, chats=[[(EVIL, EVIL)]]) as it:
        await it.until(lambda: "[bold red]" in it.text())
        await it.ask(EVIL.replace("\n", " "))
        it.transcript.last_answer.fold()
        await it.pilot.pause()
        assert_clean(it)
        assert "[@click=app.quit]go" in it.text()
        await it.ask("fail")
        assert_clean(it)
        await it.pilot.press("f2")
        await it.pilot.pause()
        assert_clean(it)
        await it.pilot.press("escape")
        it.screen.tell(EVIL)
        await it.pilot.pause()
        assert_clean(it)


async def test_html_and_images_are_words(stage: Stage) -> None:
    text = (
        "<b>bold</b> <script>alert(1)</script>\n\n<div>\nblock\n</div>\n\n"
        "![a cat](http://evil.example/cat.png)\n\n[go](file:///etc/passwd) [js](javascript:x)"
    )
    async with stage(size=(120, 40), client=ScriptedClient([Script((text,))])) as it:
        await it.ask("Q")
        shown = it.text()
        for words in (
            "<b>bold</b>",
            "<script>alert(1)</script>",
            "<div>",
            "block",
            "[image: a cat] (http://evil.example/cat.png)",
            "[go](file:///etc/passwd)",
        ):
            assert words in shown


async def test_a_link_shows_its_target_and_asks(stage: Stage, monkeypatch: Any) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    text = "[my bank](https://evil.example/?bank)"
    async with stage(client=ScriptedClient([Script((text,))])) as it:
        await it.ask("Q")
        text_widget = it.transcript.last_answer.query_one(AnswerText)
        text_widget.post_message(AnswerText.LinkClicked("https://evil.example/?bank"))
        await it.until(lambda: isinstance(it.app.screen, ConfirmPage))
        await it.until(lambda: "https://evil.example/?bank" in it.text())
        await it.pilot.press("enter")
        await it.until(lambda: it.app.screen is it.screen)
        assert opened == []
        it.screen.overlays.ask_link("https://evil.example/?bank")
        await it.until(lambda: "https://evil.example/?bank" in it.text())
        await it.pilot.press("y")
        await it.until(lambda: opened == ["https://evil.example/?bank"])
        it.screen.overlays.ask_link("file:///etc/passwd")
        await it.until(lambda: any("Only http" in line for line in it.told))
        assert len(opened) == 1


async def test_deep_nesting_and_endless_lines_lose_no_text(stage: Stage) -> None:
    deep = ">" * 2_000 + " deep\n\n"
    lists = "- " * 300 + "leaf\n\n"
    endless = "```\n" + "x" * 100_000 + "END\n```\n\nafter"
    client = ScriptedClient([Script((deep, lists, endless))])
    async with stage(size=(120, 60), client=client) as it:
        await it.ask("Q")
        assert it.transcript.last_answer.text == deep + lists + endless
        await it.until(lambda: "after" in it.text())
        drawn = str(it.transcript.last_answer._body.source)
        assert len(drawn) < 10_000


async def test_an_attached_file_is_sent_whole(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("fact\n" * 500)
    async with stage() as it:
        it.prompt.insert(f"/attach {file}")
        await it.pilot.press("enter")
        await it.until(lambda: "[pasted" in it.prompt.text and "tokens]" in it.prompt.text)
        it.prompt.insert("Sum it up.")
        await it.pilot.press("enter")
        await it.until(lambda: it.path() and it.screen.answering.run is None)
        sent = it.path()[0].text
        assert sent == 'File "notes.txt":\n' + "fact\n" * 500 + "\nSum it up."
