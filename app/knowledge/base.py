"""Knowledge bases: folders of documents with an index in our data folder, by name.

A base lies in `paths.knowledge/NAME`: `base.json` with its roots, the index, the vectors, locks.
Documents are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.knowledge.index import Index
from app.knowledge.passage import Retrieved
from app.knowledge.states import FileState, Status, SyncProgress, SyncReport
from app.knowledge.vectors import Vectors
from app.paths import Paths

Embedder = Any
Report = Callable[[SyncProgress], bool | None]
"""Called often while a sync runs; False stops it."""


class KnowledgeBases:
    """All bases of a data folder."""

    def __init__(self, paths: Paths, embedder: Embedder | None = None) -> None:
        self._folder = paths.knowledge
        self._embedder = embedder

    def names(self) -> list[str]:
        """In alphabetical order."""
        raise NotImplementedError

    def create(self, name: str, roots: Sequence[Path] = ()) -> KnowledgeBase:
        """A new, empty base; BadBaseName where the name cannot be or is taken."""
        raise NotImplementedError

    def open(self, name: str) -> KnowledgeBase:
        """NoSuchBase; IndexDamaged, IndexNewer."""
        raise NotImplementedError

    def rebuild(self, name: str) -> KnowledgeBase:
        """Throws the index away, damaged or not, and opens an empty one with the same roots."""
        raise NotImplementedError

    def remove(self, name: str) -> None:
        """Deletes the index; documents stay. Busy while another process is at it."""
        raise NotImplementedError


class KnowledgeBase:
    """One open base; usable from any thread. Close it."""

    name: str
    index: Index

    @classmethod
    def temporary(
        cls, folder: Path, texts: Mapping[str, str], embedder: Embedder | None = None
    ) -> KnowledgeBase:
        """A throw-away base of named texts in an empty folder, searchable by words on return;
        `sync` embeds it. Who made the folder removes it after `close`.
        """
        raise NotImplementedError

    @property
    def roots(self) -> tuple[Path, ...]:
        raise NotImplementedError

    def add(self, root: Path) -> None:
        """A folder or file more; `sync` reads it. KnowledgeError where it is none."""
        raise NotImplementedError

    def drop(self, root: Path) -> None:
        """A root less; `sync` takes its files out."""
        raise NotImplementedError

    def sync(
        self,
        report: Report | None = None,
        *,
        lexical_only: bool = False,
        replace_embedder: bool = False,
    ) -> SyncReport:
        """Brings the index in step with the roots, then embeds. Can be stopped at any moment and
        goes on from there. Busy where another process is at it; EmbedderChanged (after the words
        are in step) where vectors of another embedder are there and `replace_embedder` is false.
        """
        raise NotImplementedError

    def rescan(self) -> SyncReport | None:
        """A sync of the words, before a question; None where another process is at it."""
        raise NotImplementedError

    def query(
        self,
        text: str,
        budget_characters: int = 8000,
        history_terms: Sequence[str] = (),
    ) -> Retrieved:
        """Passages for a question, from the index as it is (`rescan` first where nothing
        watches).
        """
        raise NotImplementedError

    def vectors(self) -> Vectors | None:
        """Of the embedder in use; None where it is not the one that made them."""
        raise NotImplementedError

    def status(self) -> Status:
        raise NotImplementedError

    def files(self) -> list[FileState]:
        """By name."""
        raise NotImplementedError

    def export(self, path: Path) -> None:
        """All chunks with their places as JSON lines."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
