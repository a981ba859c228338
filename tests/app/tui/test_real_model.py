"""The screen over the real engine and the starter model: what is stored, shown and computed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.paths import Paths
from app.settings import read_settings
from app.store.conversation import AnswerInfo, Message
from app.store.history import History
from engine.client import EngineClient
from engine.events import Usage
from tests.bench.terminal import Terminal, opened

pytestmark = pytest.mark.model

Stage = Callable[..., Any]

MOST_READ = 40
"""A short question with its template is less; a second turn from its start is more."""


def usage(message: Message) -> Usage:
    assert isinstance(message.info, AnswerInfo)
    return message.info.usage


def found(message: Message) -> int:
    """Tokens that were not computed again: work between the turns decides whether their state was
    still live or came back from memory.
    """
    return usage(message).reused_tokens + usage(message).restored_tokens


def words_of(text: str) -> str:
    return " ".join(text.split())


def is_shown(it: Any) -> bool:
    """Whether the last answer's text stands on the screen."""
    return words_of(it.path()[-1].text) in words_of(it.text())


async def until_answered(it: Any, leaf: int) -> None:
    """Until another answer than `leaf` is the last one, and complete."""
    await it.until(lambda: it.screen.answering.run is None and it.path()[-1].id != leaf)
    await it.until(lambda: is_shown(it))


async def test_turns_branches_and_chats_compute_only_what_is_new(
    stage: Stage, tmp_path: Path, starter_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.session.choose_model", lambda *_: starter_model)
    paths = Paths.under(tmp_path / "folder").ensure()
    settings = read_settings(paths.config_file, ["temperature=0", "max_tokens=8"])
    client = EngineClient(paths.engine_log)
    async with stage(size=(90, 40), client=client, settings=settings, patience_s=120.0) as it:
        await it.ask("Name a colour.")
        await it.ask("Name another one.")
        first = it.path()
        assert [m.text for m in first][::2] == ["Name a colour.", "Name another one."]
        assert all(len(m.ids) == 8 and m.status == "cut" for m in first[1::2])
        await it.until(lambda: is_shown(it))
        assert 0 < usage(first[-1]).computed_tokens < MOST_READ
        assert found(first[-1]) > 0
        await it.until(lambda: re.search(r"KV [1-9][\d.]* [kM]B · \d+ thread", it.text()))

        await it.pilot.press("ctrl+r")
        await until_answered(it, first[-1].id)
        again = it.path()
        assert [m.id for m in again[:3]] == [m.id for m in first[:3]]
        assert again[-1].text == first[-1].text
        assert usage(again[-1]).computed_tokens < 5  # the end of the prompt, for its logits

        await it.pilot.press("alt+up", "alt+up", "e")
        it.prompt.text = "Name a fruit."
        await it.pilot.press("enter")
        await until_answered(it, again[-1].id)
        edited = it.path()
        assert [m.text for m in edited][::2] == ["Name a colour.", "Name a fruit."]
        assert 0 < usage(edited[-1]).computed_tokens < MOST_READ
        assert found(edited[-1]) >= usage(first[1]).prompt_tokens

        for wanted in (again, first):
            it.transcript.turns[2 if wanted is again else 3].focus()
            await it.pilot.press("left")
            await it.until(lambda wanted=wanted: it.path() == wanted and is_shown(it))
        await it.pilot.press("escape")
        await it.ask("And a third one?", turns=6)
        assert it.path()[:4] == first
        third = it.path()[-1]
        assert usage(third).computed_tokens < MOST_READ
        assert found(third) >= usage(first[-1]).prompt_tokens

        chat_id = it.screen.chat.id
        await it.pilot.press("ctrl+n")
        await it.until(lambda: it.screen.chat is None and not it.transcript.turns)
        await it.ask("Name a colour.")
        assert it.screen.chat.id != chat_id
        assert [m.text for m in it.path()] == [m.text for m in first[:2]]
        assert it.told == []


def ask(terminal: Terminal, text: str, history: History, count: int) -> list[Message]:
    """Types a question; the chat's messages once there are `count`, with the last one ended."""
    terminal.type(text)
    terminal.until(lambda: text.split()[-1].encode() in terminal.written)
    time.sleep(0.7)  # right behind the text Enter would be a line end of a paste
    terminal.type("\r")

    def path() -> list[Message]:
        chat = history.latest()
        return history.path(chat.id) if chat is not None else []

    terminal.until(lambda: len(path()) == count and path()[-1].status != "streaming")
    return path()


def test_the_real_program_answers_twice_and_gives_the_terminal_back(
    tmp_path: Path, starter_model: Path
) -> None:
    home = tmp_path / "home"
    options = ("-m", str(starter_model), "-o", "max_tokens=8", "-o", "temperature=0")
    with opened(home, *options) as terminal:
        terminal.until_shown(b"fits")
        history = History.open(home / "data" / "chats.sqlite3", home / "data" / "locks")
        ask(terminal, "Name a colour.", history, 2)
        turns = ask(terminal, "Name another.", history, 4)
        history.close()
        terminal.type("\x11")
        assert terminal.ended() == 0
        written = bytes(terminal.written)
    assert [m.role for m in turns] == ["user", "assistant"] * 2
    assert [m.text for m in turns[::2]] == ["Name a colour.", "Name another."]
    assert all(len(m.ids) == 8 and m.text for m in turns[1::2])
    assert found(turns[-1]) > 0
    assert usage(turns[-1]).computed_tokens < MOST_READ
    assert written.count(b"\x1b[?1049h") == written.count(b"\x1b[?1049l") == 1
    assert b"\x1b]" not in re.sub(rb"\x1b\]22;\w+\x07", b"", written)  # Textual's pointer shape
    assert b"Traceback" not in written
