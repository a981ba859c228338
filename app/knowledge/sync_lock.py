"""The lock of the one process that writes an index; the system drops it with its owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import Busy
from app.knowledge.index_file import locks_of
from app.store.locks import hold

PATIENCE_S = 1.0
"""A process that was killed while it started another leaves the lock to that one for a moment."""


@contextmanager
def syncing(folder: Path, name: str, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """The lock of the one that writes the index. Raises Busy, with the other's pid."""
    what = f"The knowledge base {name} is being brought up to date"
    with hold(sync_lock(folder), timeout=patience_s, what=what):
        yield


def is_held(folder: Path) -> bool:
    """Whether any process writes the index now."""
    if not sync_lock(folder).exists():
        return False
    try:
        with syncing(folder, "", patience_s=0):
            return False
    except Busy:
        return True


def sync_lock(folder: Path) -> Path:
    return locks_of(folder) / "sync.lock"
