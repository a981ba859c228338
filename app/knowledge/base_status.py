"""What an index tells of a knowledge base: its state in figures, and each file's state."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from app.knowledge.index import Index
from app.knowledge.states import INDEXED, FileState, Status
from app.knowledge.stored_chunks import path_of, shown
from app.knowledge.vectors import Vectors

COUNTS = "SELECT count(*), count(content_id) FROM files"

FILES = """
SELECT roots.path, relative, state, size, coalesce(counted.chunks, 0), coalesce(notices, '[]')
FROM files JOIN roots ON roots.id = root_id LEFT JOIN contents ON contents.id = files.content_id
LEFT JOIN (SELECT content_id, count(*) AS chunks FROM chunks GROUP BY content_id) AS counted
    ON counted.content_id = files.content_id"""


def status(
    name: str, roots: Sequence[Path], index: Index, vectors: Vectors | None, is_syncing: bool
) -> Status:
    with index.read() as connection:
        files, indexed = connection.execute(COUNTS).fetchone()
        (synced,) = connection.execute("SELECT synced FROM meta").fetchone()
        missing = connection.execute("SELECT path FROM roots WHERE is_missing").fetchall()
    embedded, used_rows = index.vector_counts
    return Status(
        name=name,
        roots=tuple(roots),
        missing_roots=tuple(Path(os.fsdecode(path)) for (path,) in missing),
        files=files,
        indexed_files=indexed,
        chunks=index.chunk_count,
        embedded_chunks=embedded,
        embedder=index.embedder,
        index_bytes=size_of(index.folder),
        is_syncing=is_syncing,
        synced=synced,
        vector_search=None if vectors is None else vectors.search_way(used_rows),
    )


def files(index: Index, unfinished: bool = False) -> list[FileState]:
    """By name; only those that are not `indexed` where asked."""
    with index.read() as connection:
        condition = "WHERE state <> ?" if unfinished else "WHERE ? <> ''"
        rows = connection.execute(f"{FILES} {condition}", (INDEXED,)).fetchall()
    found = [
        FileState(
            shown(root, relative),
            path_of(root, relative),
            state,
            size,
            chunks,
            tuple(json.loads(notices)),
        )
        for root, relative, state, size, chunks, notices in rows
    ]
    return sorted(found, key=lambda file: (file.name, file.path))


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            pass  # Gone meanwhile.
    return total
