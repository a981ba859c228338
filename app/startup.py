"""Putting the parts together for one run: settings, chats, engine.

Front ends call this once at their start; it knows which files and processes belong together, and
nothing of screens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from app.options import apply_options
from app.paths import Paths
from app.session import Session
from app.settings import Settings, load_settings
from app.store.history import History
from engine.client import EngineClient


def read_settings(paths: Paths, options: Sequence[str] = ()) -> Settings:
    """The settings of the file and the environment, with `key=value` options over them."""
    return apply_options(load_settings(paths.config_file), options)


def open_session(paths: Paths, settings: Settings, private: bool = False) -> Session:
    """A session over the data folder, or one that stores nothing. Close it."""
    paths.ensure()
    history = History.in_memory() if private else History.open(paths.database, paths.locks)
    return Session(history, EngineClient(paths.engine_log), settings, paths, private)


@contextmanager
def session_for(paths: Paths, settings: Settings, private: bool = False) -> Iterator[Session]:
    session = open_session(paths, settings, private)
    try:
        yield session
    finally:
        session.close()
