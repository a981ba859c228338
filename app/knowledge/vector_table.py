"""Which row of which vector file holds which text, inside an index file.

A set is the vectors of one embedder. At most one set is in use and one is being made to replace it:
two embedders' vectors are never in one set. Functions over a connection; transactions are the
caller's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from app.knowledge.errors import EmbedderChanged, typed

WITHOUT_VECTOR = """
SELECT min(id) FROM chunks WHERE NOT EXISTS
    (SELECT 1 FROM vectors WHERE set_id = ? AND vectors.key = chunks.key)
GROUP BY key"""


WITH_VECTOR = "FROM chunks JOIN vectors ON vectors.key = chunks.key WHERE set_id = ?"


@dataclass(frozen=True, slots=True)
class VectorSet:
    """The vectors of one embedder."""

    id: int
    fingerprint: str
    size: int
    """Numbers in a vector."""
    in_use: bool
    """False: it is being made, to replace the one in use."""


def sets(connection: sqlite3.Connection) -> list[VectorSet]:
    rows = connection.execute("SELECT id, fingerprint, size, in_use FROM vector_sets")
    return [VectorSet(set_id, name, size, bool(in_use)) for set_id, name, size, in_use in rows]


def set_in_use(connection: sqlite3.Connection) -> VectorSet | None:
    return next((each for each in sets(connection) if each.in_use), None)


def bind(
    connection: sqlite3.Connection, fingerprint: str, size: int, replace: bool, name: str
) -> VectorSet:
    """The set that this embedder fills. Raises EmbedderChanged with the `name` of the base."""
    there = sets(connection)
    current = next((each for each in there if each.in_use), None)
    same = next((each for each in there if each.fingerprint == fingerprint), None)
    if same is not None and same.size == size:
        drop(connection, [each.id for each in there if not each.in_use and each != same])
        return same
    if current is not None and not replace:
        raise EmbedderChanged(
            f"The documents of {name} were embedded by another model",
            f"The index has vectors of {current.fingerprint}; the embedder now is {fingerprint}.",
            "Use the former one, or let all documents be embedded again:"
            f" `localchat kb sync {typed(name)} --yes`. Searching by words works either way.",
        )
    drop(connection, [each.id for each in there if not each.in_use or each == same])
    cursor = connection.execute(
        "INSERT INTO vector_sets (fingerprint, size, in_use) VALUES (?, ?, ?)",
        (fingerprint, size, current is None or current == same),
    )
    return VectorSet(
        int(cursor.lastrowid or 0), fingerprint, size, current is None or current == same
    )


def drop(connection: sqlite3.Connection, set_ids: Sequence[int]) -> None:
    for set_id in set_ids:
        connection.execute("DELETE FROM vectors WHERE set_id = ?", (set_id,))
        connection.execute("DELETE FROM vector_sets WHERE id = ?", (set_id,))


def take_into_use(connection: sqlite3.Connection, set_id: int) -> None:
    """Throws the other sets away."""
    drop(connection, [each.id for each in sets(connection) if each.id != set_id])
    connection.execute("UPDATE vector_sets SET in_use = 1 WHERE id = ?", (set_id,))


def without_vector(connection: sqlite3.Connection, set_id: int, limit: int) -> list[int]:
    """One chunk of each text that has no row."""
    rows = connection.execute(f"{WITHOUT_VECTOR} LIMIT ?", (set_id, limit))
    return [chunk_id for (chunk_id,) in rows]


def count_without_vector(connection: sqlite3.Connection, set_id: int) -> int:
    query = f"SELECT count(*) FROM ({WITHOUT_VECTOR})"
    return int(connection.execute(query, (set_id,)).fetchone()[0])


def owner(connection: sqlite3.Connection, vector_set: VectorSet) -> str:
    """Whose rows a file of vectors holds: this index's, of this embedder."""
    (identity,) = connection.execute("SELECT identity FROM meta").fetchone()
    return f"{identity.hex()} {vector_set.id} {vector_set.fingerprint} {vector_set.size}"


def free_rows(
    connection: sqlite3.Connection, set_id: int, held: Iterable[int] = ()
) -> Iterator[int]:
    """Rows that hold nothing, lowest first; without end. Rows that a graph holds are not free."""
    taken = {
        row for (row,) in connection.execute("SELECT row FROM vectors WHERE set_id = ?", (set_id,))
    }
    taken.update(held)
    return (row for row in count() if row not in taken)


def rows_needed(connection: sqlite3.Connection, set_id: int) -> int:
    """How many rows the file of this set has at least."""
    query = "SELECT coalesce(max(row) + 1, 0) FROM vectors WHERE set_id = ?"
    return int(connection.execute(query, (set_id,)).fetchone()[0])


def forget_rows(connection: sqlite3.Connection, set_id: int, first: int) -> None:
    """From this one on: the file that held them was lost or cut short."""
    connection.execute("DELETE FROM vectors WHERE set_id = ? AND row >= ?", (set_id, first))


def put_rows(
    connection: sqlite3.Connection, set_id: int, chunk_ids: Sequence[int], rows: Sequence[int]
) -> None:
    """Chunks that are gone meanwhile are left out, and so is a text that has a row already."""
    connection.executemany(
        """INSERT OR IGNORE INTO vectors (set_id, key, row)
            SELECT ?, key, ? FROM chunks WHERE id = ?""",
        [(set_id, row, chunk_id) for chunk_id, row in zip(chunk_ids, rows, strict=True)],
    )


def slots(connection: sqlite3.Connection, set_id: int) -> Iterator[tuple[int, int]]:
    """Chunk ids and their rows."""
    query = f"SELECT chunks.id, row {WITH_VECTOR}"
    return connection.execute(query, (set_id,))


def counts(connection: sqlite3.Connection, set_id: int) -> tuple[int, int]:
    """Chunks with a vector, and rows that they stand in."""
    query = f"""SELECT (SELECT count(*) {WITH_VECTOR}),
        (SELECT count(*) FROM vectors WHERE set_id = ?)"""
    chunks, rows = connection.execute(query, (set_id, set_id)).fetchone()
    return int(chunks), int(rows)
