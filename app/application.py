"""The Textual application: themes, keys, the session's start after the first paint, a clean end.

What a person sees is in `app/screens/`. Nothing slow is imported before the first paint.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.driver import Driver
from textual.screen import Screen
from textual.worker import WorkerFailed

from app import messages as m
from app.keys import KEYS, bindings, unknown_ids
from app.screens.chat import ChatScreen
from app.slash import SLASHES
from app.terminal import CRASHED
from app.themes import NAMES, THEMES, theme_name

if TYPE_CHECKING:
    from app.session import Session
    from app.settings import Settings

TERMINATED = 128

NOT_OURS = frozenset({"app.palette", "chat.undo", "chat.stop"})


class LocalchatApp(App[int]):
    """One chat screen over one session."""

    TITLE = "localchat"
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("anywhere")]
    COMMAND_PALETTE_BINDING = "f24"
    """Unused: the table of keys binds the palette."""
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        session_factory: Callable[[], Session],
        settings: Settings,
        model: str | None = None,
        driver_class: type[Driver] | None = None,
    ) -> None:
        self._session_factory = session_factory
        self._settings = settings
        self._overrides = dict(settings.keys)
        super().__init__(driver_class=driver_class)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = theme_name(settings.theme, frozenset(self.available_themes))
        self.set_keymap(self._overrides)
        self.chat_screen = ChatScreen(settings, self._overrides)
        self.chat_screen.loader.wanted = model
        self._is_ending = False

    def get_default_screen(self) -> Screen[None]:
        return self.chat_screen

    def on_mount(self) -> None:
        self.call_after_refresh(self._start)
        for problem in unknown_ids(self._overrides):
            self.chat_screen.post_message(m.Told(problem, is_problem=True))
        self._listen_for_ends()

    def _start(self) -> None:
        """After the first paint: the chats are opened and the model is loaded, in a thread."""
        self.run_worker(self._open_session, thread=True, group="start", exit_on_error=False)

    def _open_session(self) -> None:
        try:
            session = self._session_factory()
        except Exception as error:
            self.chat_screen.work.log_error(error)
            from app.errors import to_error_info

            self.chat_screen.post_message(m.SessionFailed(to_error_info(error)))
            return
        notices = tuple(getattr(session.history, "notices", ()))
        self.chat_screen.post_message(m.SessionReady(session, notices))
        import app.widgets.block_renderer  # noqa: F401  60 ms that the first answer need not wait for

    # ---- ending

    def _listen_for_ends(self) -> None:
        """SIGTERM and SIGHUP end the program as the quit key does, with another status."""
        if self.is_headless or sys.platform == "win32":
            return
        import asyncio

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, partial(self.end, TERMINATED + number))

    def action_quit_app(self) -> None:
        self.end(0)

    async def action_quit(self) -> None:
        self.end(0)

    def end(self, status: int) -> None:
        """Stops what runs, keeps the draft and the partial answer, then leaves."""
        if self._is_ending:
            return
        self._is_ending = True
        screen = self.chat_screen
        screen.chats.close()
        self.run_worker(partial(self._close, status), thread=True, group="end")

    def _close(self, status: int) -> None:
        """In a thread: the running answer is stored before the engine ends."""
        screen = self.chat_screen
        session = screen.stored_session
        try:
            if session is not None:
                session.cancel()
                run = screen.answering.run
                if run is not None:
                    run.over.wait(3.0)
                screen.work.finish()
                screen.knowledge.close()
                session.close()
        except Exception as error:
            screen.work.log_error(error)
        finally:
            self.call_from_thread(self.exit, status, status)

    def _handle_exception(self, error: Exception) -> None:
        """A defect ends the program. The log gets the traceback and the terminal none of it:
        Textual's own shows local variables, texts of chats among them.
        """
        import logging

        logging.getLogger("localchat").critical("ended by a defect", exc_info=cause_of(error))
        session = self.chat_screen.stored_session
        if session is not None:
            with suppress(Exception):
                session.cancel()  # an answer that runs is stored, and does not hold up the end
        super()._handle_exception(error)
        self._exit_renderables.clear()
        self._return_code = CRASHED

    def _fatal_error(self) -> None:
        """Ends without Textual's traceback."""
        self._close_messages_no_wait()

    # ---- keys and commands

    def action_help(self) -> None:
        if self.screen is self.chat_screen:
            self.chat_screen.overlays.help()
        else:
            self.pop_screen()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every key's action and every slash command, from their tables."""
        chat = self.chat_screen
        for key in KEYS:
            if key.palette and key.id not in NOT_OURS:
                target = self if key.group == "anywhere" else chat
                action = partial(self.run_action, key.action, target)
                yield SystemCommand(key.help, f"{key.label} · {chat.key(key.id)}", action)
        for slash in SLASHES:
            run = partial(chat.run_slash, slash.name, slash.argument)
            yield SystemCommand(f"/{slash.name} {slash.argument}".strip(), slash.help, run)
        for name, theme in NAMES.items():
            yield SystemCommand(f"Theme: {name}", "colours", partial(setattr, self, "theme", theme))


def cause_of(error: Exception) -> BaseException:
    """What a worker raised, where Textual has wrapped it."""
    return error.error if isinstance(error, WorkerFailed) else error
