"""The writing side of an index: which files there are, and the documents that they hold.

Each method is one transaction. A document without a file stays until `collect`, unseen by searches:
so a file that was moved finds its document, chunks and vectors again. It reads no file of a person.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from app.knowledge import chunking, word_table
from app.knowledge.chunking import Chunk, chunks
from app.knowledge.document import Document
from app.knowledge.index_file import IndexFile
from app.knowledge.reading import RULES as READING_RULES
from app.sanitize import single_line

RULES = f"{READING_RULES}/{chunking.RULES}"
"""Of readers and cuts. Documents made by others are made again, texts that stay keep vectors."""

SYNCED_STEP_SECONDS = 60.0

NAME_LIMIT = 8
"""File names of one document that can be searched for."""

FILE_COLUMNS = (
    "relative, size, mtime_ns, ctime_ns, device, inode, hashed_ns, hash, rules, state, content_id"
)

FILE_NAMES = """
SELECT roots.path, relative FROM files JOIN roots ON roots.id = root_id WHERE content_id = ?"""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file as it was when it was read."""

    relative: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    device: int
    inode: int
    hashed_ns: int
    """When its bytes were read, by the system's clock; 0: they were not."""
    hash: bytes | None
    """Names its document (`file_bytes.py`); None: its bytes were not read."""
    rules: str
    state: str
    content_id: int | None = None


class Catalogue:
    """Files and documents of one index. One process at a time uses it, under the sync's lock. What
    is so already is not written again: a scan that finds nothing new leaves the index untouched.
    """

    def __init__(self, file: IndexFile) -> None:
        self._file = file

    def refresh_words(self, tell: Callable[[], None] = lambda: None) -> bool:
        """Brings the word index under the rules of this program, all or none of it; whether that
        was needed. `tell` is called now and then; what it raises ends it.
        """
        with self._file.read() as connection:
            if word_table.is_current(connection):
                return False
        with self._file.write() as connection:
            word_table.refresh_words(connection, tell)
        return True

    # ---- roots

    def set_roots(self, roots: Sequence[Path]) -> dict[Path, int]:
        """These and no others; files of the others go."""
        wanted = {os.fsencode(root): root for root in roots}
        with self._file.read() as connection:
            there = dict(connection.execute("SELECT path, id FROM roots").fetchall())
        if there.keys() != wanted.keys():
            with self._file.write() as connection:
                for path in there.keys() - wanted.keys():
                    self._drop_root(connection, there[path])
                for path in wanted.keys() - there.keys():
                    connection.execute("INSERT INTO roots (path) VALUES (?)", (path,))
                there = dict(connection.execute("SELECT path, id FROM roots").fetchall())
        return {wanted[path]: root_id for path, root_id in there.items()}

    def count_outside(self, roots: Sequence[Path]) -> int:
        """Files that were read and lie in none of these."""
        query = """SELECT path, count(*) FROM files JOIN roots ON roots.id = root_id
            WHERE hash IS NOT NULL GROUP BY root_id"""
        with self._file.read() as connection:
            counts = connection.execute(query).fetchall()
        places = ((Path(os.fsdecode(path)), count) for path, count in counts)
        return sum(count for place, count in places if not any(map(place.is_relative_to, roots)))

    def _drop_root(self, connection: sqlite3.Connection, root_id: int) -> None:
        ids = content_ids(connection, "root_id = ?", root_id)
        connection.execute("DELETE FROM files WHERE root_id = ?", (root_id,))
        connection.execute("DELETE FROM roots WHERE id = ?", (root_id,))
        for content_id in ids:
            rename(connection, content_id)

    def device(self, root_id: int) -> int | None:
        """That the root lay on at the last scan."""
        query = "SELECT device FROM roots WHERE id = ?"
        with self._file.read() as connection:
            (device,) = connection.execute(query, (root_id,)).fetchone()
            return None if device is None else int(device)

    def set_root_state(self, root_id: int, device: int | None, is_missing: bool) -> None:
        """`device` None: as it was. A disk's number changes when it is mounted again."""
        query = "SELECT coalesce(?, device) IS device AND is_missing = ? FROM roots WHERE id = ?"
        with self._file.read() as connection:
            (is_so,) = connection.execute(query, (device, is_missing, root_id)).fetchone()
        if is_so:
            return
        with self._file.write() as connection:
            if device is not None:
                connection.execute(
                    """UPDATE files SET device = ?1 WHERE root_id = ?2
                        AND device = (SELECT device FROM roots WHERE id = ?2) AND device <> ?1""",
                    (device, root_id),
                )
            connection.execute(
                "UPDATE roots SET device = coalesce(?, device), is_missing = ? WHERE id = ?",
                (device, is_missing, root_id),
            )

    # ---- files

    def files(self, root_id: int) -> dict[bytes, FileRecord]:
        """By path relative to the root."""
        query = f"SELECT {FILE_COLUMNS} FROM files WHERE root_id = ?"
        with self._file.read() as connection:
            return {row[0]: FileRecord(*row) for row in connection.execute(query, (root_id,))}

    def known_content(self, digest: bytes) -> int | None:
        """The document of these bytes, made by the rules of this program."""
        query = "SELECT id FROM contents WHERE hash = ? AND rules = ?"
        with self._file.read() as connection:
            row = connection.execute(query, (digest, RULES)).fetchone()
        return None if row is None else int(row[0])

    def known_state(self, digest: bytes) -> str | None:
        """Why these bytes gave no document, by the rules of this program."""
        query = "SELECT state FROM files WHERE hash = ? AND rules = ? AND content_id IS NULL"
        with self._file.read() as connection:
            row = connection.execute(query, (digest, RULES)).fetchone()
        return None if row is None else str(row[0])

    def put(self, root_id: int, file: FileRecord, document: Document | None = None) -> None:
        """A file as it is now, with its document where it has a new one."""
        with self._file.write() as connection:
            content_id = file.content_id
            if document is not None and file.hash is not None:
                content_id = put_document(connection, root_id, file, document)
            before = content_ids(connection, "root_id = ? AND relative = ?", root_id, file.relative)
            put_file(connection, root_id, file, content_id)
            for other in {*before, *([] if content_id is None else [content_id])}:
                rename(connection, other)

    def put_all(self, root_id: int, files: Iterable[FileRecord]) -> None:
        """Files whose documents stay as they are."""
        with self._file.write() as connection:
            for file in files:
                put_file(connection, root_id, file, file.content_id)

    def remove(self, root_id: int, relatives: Iterable[bytes]) -> None:
        """Files that are gone."""
        with self._file.write() as connection:
            for relative in relatives:
                ids = content_ids(connection, "root_id = ? AND relative = ?", root_id, relative)
                connection.execute(
                    "DELETE FROM files WHERE root_id = ? AND relative = ?", (root_id, relative)
                )
                for content_id in ids:
                    rename(connection, content_id)

    def orphans(self) -> list[int]:
        """Documents without a file."""
        query = """SELECT id FROM contents
            WHERE NOT EXISTS (SELECT 1 FROM files WHERE content_id = contents.id)"""
        with self._file.read() as connection:
            return [content_id for (content_id,) in connection.execute(query)]

    def collect(self, content_ids: Iterable[int]) -> None:
        """Takes documents out with their chunks, words and vectors."""
        with self._file.write() as connection:
            for content_id in content_ids:
                drop_chunks(connection, content_id)
                connection.execute("DELETE FROM contents WHERE id = ?", (content_id,))

    def set_synced(self, moment: float) -> None:
        """Where nothing has changed it is kept to the minute."""
        with self._file.read() as connection:
            (before,) = connection.execute("SELECT synced FROM meta").fetchone()
        if before is None or not 0 <= moment - before < SYNCED_STEP_SECONDS:
            with self._file.write() as connection:
                connection.execute("UPDATE meta SET synced = ?", (moment,))

    def trim(self) -> None:
        self._file.trim()


def put_file(
    connection: sqlite3.Connection, root_id: int, file: FileRecord, content_id: int | None
) -> None:
    connection.execute(
        f"INSERT OR REPLACE INTO files (root_id, {FILE_COLUMNS}) VALUES (?{', ?' * 11})",
        (
            *(root_id, file.relative, file.size, file.mtime_ns, file.ctime_ns, file.device),
            *(file.inode, file.hashed_ns, file.hash, file.rules, file.state, content_id),
        ),
    )


def put_document(
    connection: sqlite3.Connection, root_id: int, file: FileRecord, document: Document
) -> int:
    """A document with its chunks and words, in place of one that other rules made of the same
    bytes; that one has no file then.
    """
    old = connection.execute(
        "SELECT id, names, rules FROM contents WHERE hash = ?", (file.hash,)
    ).fetchone()
    if old and old[2] == RULES:
        return int(old[0])
    if old:
        connection.execute("UPDATE contents SET hash = randomblob(16) WHERE id = ?", (old[0],))
    (root,) = connection.execute("SELECT path FROM roots WHERE id = ?", (root_id,)).fetchone()
    cursor = connection.execute(
        """INSERT INTO contents (hash, rules, kind, title, names, hidden_characters, notices)
            VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (
            *(file.hash, RULES, document.kind, document.title),
            old[1] if old else joined_names([file_name(root, file.relative)]),
            document.hidden_characters,
            json.dumps(document.notices, ensure_ascii=False),
        ),
    )
    content_id = int(cursor.lastrowid or 0)
    put_chunks(connection, content_id, chunks(document))
    word_table.add_words(connection, content_id)
    if old:
        connection.execute(
            "UPDATE files SET content_id = ?, rules = ? WHERE content_id = ?",
            (content_id, RULES, old[0]),
        )
    return content_id


def put_chunks(connection: sqlite3.Connection, content_id: int, made: Sequence[Chunk]) -> None:
    connection.executemany(
        """INSERT INTO chunks (content_id, position, start, end, page, last_page, first_line,
            last_line, headings, header, key, text)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            (
                *(content_id, chunk.order, chunk.start, chunk.end, chunk.page, chunk.last_page),
                *(chunk.first_line, chunk.last_line),
                json.dumps(chunk.headings, ensure_ascii=False),
                *(chunk.header, key_of(chunk), chunk.text),
            )
            for chunk in made
        ),
    )


def key_of(chunk: Chunk) -> bytes:
    """Names the text that is embedded, but for the file's name: vectors outlive renames."""
    parts = json.dumps((chunk.headings, chunk.header, chunk.text))
    return blake2b(parts.encode(), digest_size=16).digest()


def drop_chunks(connection: sqlite3.Connection, content_id: int) -> None:
    """A document's chunks, their words, and vectors of texts that no chunk holds any more."""
    word_table.delete_words(connection, content_id)
    connection.execute(
        """DELETE FROM vectors WHERE key IN (SELECT key FROM chunks WHERE content_id = ?1)
            AND NOT EXISTS (SELECT 1 FROM chunks
                WHERE chunks.key = vectors.key AND content_id <> ?1)""",
        (content_id,),
    )
    connection.execute("DELETE FROM chunks WHERE content_id = ?", (content_id,))


def rename(connection: sqlite3.Connection, content_id: int) -> None:
    """Puts the names of its files, as they are now, in front of a document's words."""
    rows = connection.execute(FILE_NAMES, (content_id,)).fetchall()
    names = joined_names([file_name(*place) for place in rows])
    (indexed,) = connection.execute(
        "SELECT names FROM contents WHERE id = ?", (content_id,)
    ).fetchone()
    if names in ("", indexed):
        return
    word_table.delete_words(connection, content_id)
    connection.execute("UPDATE contents SET names = ? WHERE id = ?", (names, content_id))
    word_table.add_words(connection, content_id)


def joined_names(names: Iterable[bytes]) -> str:
    """The different file names, so that the same files give the same words whatever came first."""
    shown = {single_line(os.fsdecode(name)) for name in names}
    return "\n".join(sorted(shown)[:NAME_LIMIT])


def file_name(root: bytes, relative: bytes) -> bytes:
    """Without folders. A root may be a file: its path relative to itself is empty."""
    return os.path.basename(relative or root)


def content_ids(connection: sqlite3.Connection, condition: str, *values: int | bytes) -> list[int]:
    """Documents of the files that meet the condition."""
    query = f"SELECT DISTINCT content_id FROM files WHERE {condition} AND content_id IS NOT NULL"
    return [content_id for (content_id,) in connection.execute(query, values)]
