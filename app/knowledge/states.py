"""What a knowledge base tells about itself: progress, reports, states of files. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.knowledge.stored import VectorSearch

INDEXED = "indexed"
SKIPPED = "skipped: "
"""Final states of a file, the second with a reason after it; the others are those of
`document.Unreadable`.
"""

Phase = Literal["reading", "embedding", "graph"]
"""The last only where there are very many vectors."""


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """How far a sync is."""

    phase: Phase
    done: int
    """Files looked at, texts embedded, or vectors put into the graph."""
    total: int
    """Files found, or texts that have no vector, or vectors to put, when the phase starts."""
    name: str = ""
    """The file at hand, escaped for people."""
    is_searchable: bool = False
    """All files are in the word index."""


@dataclass(frozen=True, slots=True)
class FileState:
    """One file below a root."""

    name: str
    """Path relative to its root, escaped for people."""
    path: Path
    state: str
    size: int
    """Bytes."""
    chunks: int
    notices: tuple[str, ...] = ()
    """Of its reader, e.g. `page 3: no text (needs OCR)`."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    parsed: int = 0
    """Files that were read by a reader; the others were known by their bytes."""
    embedded: int = 0
    """Texts."""
    is_complete: bool = True
    """False: it was stopped; the next sync goes on from there."""
    searchable_after: float | None = None
    """Seconds until all files were in the word index."""
    unfinished: tuple[FileState, ...] = ()
    """Files that are not `indexed`, with the reason."""
    missing_roots: tuple[Path, ...] = ()
    """Roots that are gone or not mounted: what was indexed of them stays."""


@dataclass(frozen=True, slots=True)
class Status:
    """A knowledge base at one moment."""

    name: str
    roots: tuple[Path, ...]
    missing_roots: tuple[Path, ...]
    files: int
    indexed_files: int
    chunks: int
    embedded_chunks: int
    """With a vector of the embedder in use."""
    embedder: str | None
    """Fingerprint that the vectors belong to."""
    index_bytes: int
    """All files of the index on the disk."""
    is_syncing: bool
    """A process is at it now."""
    synced: float | None
    """When the last complete sync ended, seconds since 1970."""
    vector_search: VectorSearch | None = None
    """How the vectors are searched; None: there are none."""
