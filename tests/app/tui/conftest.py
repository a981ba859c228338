"""The real program over a scripted engine, in Textual's headless driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from app.application import LocalchatApp
from app.screens.chat import ChatScreen
from app.session import Session
from app.settings import Settings
from app.store.conversation import Message
from app.widgets.prompt import Prompt
from app.widgets.transcript import Transcript
from engine.client import EngineClient
from tests.app.tui.fakes import ScriptedClient, fill, make_session
from tests.patience import PATIENCE_S


@dataclass
class Stage:
    """A running program and the hands on it."""

    app: LocalchatApp
    pilot: Pilot[int]
    client: EngineClient
    told: list[str]
    patience_s: float = PATIENCE_S

    @property
    def screen(self) -> ChatScreen:
        return self.app.chat_screen

    @property
    def session(self) -> Session:
        session = self.screen.session
        assert session is not None
        return session

    @property
    def prompt(self) -> Prompt:
        return self.screen.prompt

    @property
    def transcript(self) -> Transcript:
        return self.screen.transcript

    async def until(self, condition: Callable[[], object]) -> None:
        """Waits for a state, never for a time; then until the screen shows it."""
        end = time.monotonic() + self.patience_s
        while not condition():
            assert time.monotonic() < end, f"the state did not come; the screen:\n{self.text()}"
            await self.pilot.pause()
            await asyncio.sleep(0.01)
        await self.pilot.pause(0)

    async def ask(self, text: str, turns: int | None = None) -> None:
        """Sends a message and waits until it is answered."""
        wanted = len(self.transcript.turns) + 2 if turns is None else turns
        self.prompt.insert(text)
        await self.pilot.press("enter")
        await self.until(
            lambda: self.screen.answering.run is None and len(self.transcript.turns) == wanted
        )

    def path(self) -> list[Message]:
        chat = self.screen.chat
        return [] if chat is None else self.session.history.path(chat.id)

    def text(self) -> str:
        """What the screen shows, as lines of text."""
        width, height = self.app.size
        screen = self.app.screen
        strips = screen._compositor.render_strips()
        del width, height
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)


Opener = Callable[..., "AsyncStage"]
AsyncStage = Awaitable[Stage]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Opens the program: `async with stage(size=..., client=..., chats=[...]) as it`."""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    monkeypatch.setattr("app.session.choose_model", lambda *_: model)
    monkeypatch.setattr("app.clipboard.find_tool", lambda *_: None)

    @asynccontextmanager
    async def opened(
        size: tuple[int, int] = (100, 30),
        client: EngineClient | None = None,
        settings: Settings | None = None,
        chats: Sequence[Sequence[tuple[str, str]]] = (),
        wait: bool = True,
        patience_s: float = PATIENCE_S,
    ) -> AsyncIterator[Stage]:
        engine = client or ScriptedClient()
        chosen = settings or Settings()

        def open_session() -> Session:
            session = make_session(tmp_path / "folder", engine, chosen)
            for chat in chats:
                fill(session, chat)
            return session

        app = LocalchatApp(open_session, chosen)
        told: list[str] = []
        notify = app.notify

        def remember(message: str, **arguments: Any) -> None:
            told.append(message)
            notify(message, **arguments)

        monkeypatch.setattr(app, "notify", remember)
        async with app.run_test(size=size) as pilot:
            it = Stage(app, pilot, engine, told, patience_s)
            if wait:
                await it.until(lambda: app.chat_screen.loaded is not None)
                await pilot.pause()
            try:
                yield it
            finally:
                for script in engine.scripts if isinstance(engine, ScriptedClient) else ():
                    if script.gate is not None:
                        script.gate.set()
                session = app.chat_screen.stored_session
                if session is not None:
                    session.cancel()
                    await it.until(lambda: app.chat_screen.answering.run is None)
                app.chat_screen.work.finish()
                if session is not None:
                    session.close()

    return opened
