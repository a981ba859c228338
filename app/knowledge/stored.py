"""What the index of a knowledge base gives back. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class WordHit:
    """A chunk that holds words of a query."""

    chunk_id: int
    bm25: float
    """Larger is better, never negative (SQLite's bm25 with its sign turned)."""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with its place, as the index holds it."""

    id: int
    content_id: int
    """The document. Files with the same bytes and ending are one document."""
    path: Path
    """Of the newest file with these bytes."""
    name: str
    """Its path relative to its root, escaped for people."""
    other_names: tuple[str, ...]
    """Of the other files with these bytes, newest first."""
    order: int
    """Position among the document's chunks, from 0."""
    text: str
    header: str
    headings: tuple[str, ...]
    start: int
    """Characters of the document's text."""
    end: int
    page: int | None
    last_page: int | None
    first_line: int | None
    last_line: int | None
    embed_text: str
    """The text that is embedded: file name, headings and table header in front."""
    hidden_characters: int
    title: str
    modified_ns: int = 0
    """When the newest file was changed, nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class ToEmbed:
    """A text that has no vector yet, and a chunk that holds it."""

    chunk_id: int
    text: str


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """How the vectors nearest to a query are found."""

    way: Literal["exact", "graph + exact tail"]
    """All are compared, or the graph's candidates and all that it does not hold."""
    notice: str = ""
    """Why a base that is large enough for a graph is searched without one."""
