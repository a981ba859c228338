"""Opens the chat screen on this terminal. It stays light: Textual is imported in the guarded
child only.
"""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.driver import Driver

    from app.paths import Paths
    from app.session import Session
    from app.settings import Settings

DRAWS_PER_S = "120"
"""A key waits for up to two of them: 33 ms at the usual 60. What did not change is not drawn."""


def run(paths: Paths, settings: Settings, model: str | None = None) -> int:
    """Opens the chat screen; returns the exit status. The terminal is restored in any case.

    Raises StorageError before the terminal is touched where there can be no log.
    """
    from app.terminal import run_guarded

    prepare_log(paths)
    return run_guarded(partial(run_here, paths, settings, model), paths.log)


def run_here(paths: Paths, settings: Settings, model: str | None) -> int:
    """The program without its guarding parent."""
    os.environ.setdefault("TEXTUAL_FPS", DRAWS_PER_S)  # read when Textual is imported
    from app.application import LocalchatApp

    def open_session() -> Session:
        from app.startup import open_session

        return open_session(paths, settings)

    app = LocalchatApp(open_session, settings, model, driver_class())
    app.run()
    return app.return_code or 0


def driver_class() -> type[Driver] | None:
    """A driver that knows pastes, where it exists; Textual's own elsewhere."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        return None
    from app.driver import PasteDriver

    return PasteDriver


def prepare_log(paths: Paths) -> None:
    """Warnings and log records go to the file, never to the screen."""
    from app.errors import file_error
    from app.paths import make_folder

    make_folder(paths.log.parent)
    try:
        descriptor = os.open(paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise file_error(error, paths.log) from error
    logging.basicConfig(
        stream=os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace"),
        level=logging.WARNING,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
        force=True,
    )
    logging.captureWarnings(True)
