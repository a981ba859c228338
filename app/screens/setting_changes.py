"""Settings that a person changes: at once for this run and, from the settings page, in the file
too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app import messages as m
from app.sanitize import single_line
from app.screens.settings import Change, SettingsPage
from app.widgets import words

if TYPE_CHECKING:
    from pathlib import Path

    from app.screens.chat import ChatScreen
    from app.settings import Settings


class SettingChanges:
    """Shows and changes the settings of the chat screen's sessions."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen

    def show(self) -> None:
        """The page of all settings."""
        session = self.screen.stored_session
        if session is not None:
            loaded = self.screen.loaded
            hints = {} if loaded is None else {"engine.ctx": words.context_cost(loaded)}
            page = SettingsPage(session.settings, str(session.paths.config_file), hints)
            self.screen.app.push_screen(page, self._keep)

    def set_option(self, option: str) -> None:
        """`key=value` for this run."""
        from app.settings import apply_options
        from engine.errors import UsageError

        screen, session = self.screen, self.screen.session
        if session is None:
            screen.tell("The chats are still being opened.")
            return
        try:
            settings = apply_options(session.settings, [option.replace(" = ", "=")])
        except UsageError as error:
            screen.post_message(m.Told(screen.work.log_error(error), is_problem=True))
            return
        screen.tell(f"{option} is set for this run.")
        self._use(settings)

    def _keep(self, change: Change | None) -> None:
        """Used from now on, and written to the file; a file that cannot be written is told."""
        from app.setting_values import parse_text
        from app.settings import LEAVES, build
        from engine.errors import UsageError

        screen, session = self.screen, self.screen.stored_session
        if session is None or change is None:
            return
        try:
            value = parse_text(change.key, LEAVES[change.key], change.text)
        except UsageError as error:
            screen.post_message(m.Told(screen.work.log_error(error), is_problem=True))
            return
        file = session.paths.config_file
        self._use(build(session.settings, {change.key: value}))
        screen.work.in_store(lambda: self._saved(file, change.key, value))

    def _saved(self, file: Path, key: str, value: object) -> m.Told:
        """In the store's thread."""
        from app.settings_file import save_setting
        from engine.errors import LocalchatError

        try:
            save_setting(file, key, value)
        except LocalchatError as error:
            reason = self.screen.work.log_error(error)
            return m.Told(f"{key} holds for this run only. {reason}", is_problem=True)
        return m.Told(kept_words(file, key, os.environ))

    def _use(self, settings: Settings) -> None:
        """From now on; what needs another load of the model gets it."""
        from app.options import load_options
        from app.themes import theme_name

        screen, session = self.screen, self.screen.stored_session
        if session is None:
            return
        old = session.settings
        for one in {id(s): s for s in (screen.session, session) if s}.values():
            one.settings = settings
        screen.settings = settings
        screen.prompt.enter_sends = settings.chat.enter_sends
        if settings.theme != old.theme:
            app = screen.app
            app.theme = theme_name(settings.theme, frozenset(app.available_themes))
        if load_options(settings, session.paths) != load_options(old, session.paths):
            self._load_again()

    def _load_again(self) -> None:
        screen = self.screen
        if screen.answering.run is not None or screen.loader.is_running:
            screen.tell("The model is busy; the next load of it takes the change.")
        elif screen.loaded is not None:
            screen.loader.begin(screen.loaded.path)


def kept_words(file: Path, key: str, environ: Mapping[str, str]) -> str:
    """Where a change was kept, and what goes before it at the next start."""
    from app.settings import variable

    words = f"{key} is kept in {single_line(str(file))}."
    if key == "model":
        words += " The next start takes it."
    if variable(key) in environ:
        words += f" But {variable(key)} is set, and goes before the file."
    return words
