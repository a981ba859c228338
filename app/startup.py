"""Putting the parts together for one run: chats, engine, knowledge bases.

Front ends call this once at their start; it knows which files and processes belong together, and
nothing of screens.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from app.paths import Paths
from app.session import Session
from app.settings import Settings, load_settings
from app.store.history import History
from engine.client import EngineClient

if TYPE_CHECKING:
    from app.knowledge.bases import KnowledgeBases
    from app.knowledge.embedder import Embedder


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


def knowledge_bases(paths: Paths) -> KnowledgeBases:
    """All knowledge bases of the data folder, with the embedder that is in use."""
    from app.knowledge.bases import KnowledgeBases

    return KnowledgeBases(paths, embedder_of(paths))


def embedder_of(paths: Paths) -> Embedder | None:
    """That of the settings, or the built-in one where it is installed; not started yet."""
    from app.knowledge.embedder import installed_embedder

    chosen = load_settings(paths.config_file).kb.embedder
    if chosen is None:
        return installed_embedder()
    from app.knowledge.gguf_embedder import GGUFEmbedder

    log = paths.engine_log.with_name("embedding.log")
    return GGUFEmbedder(Path(chosen).expanduser(), log)
