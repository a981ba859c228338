"""Opening the SQLite file of an index, and its errors in words.

The file holds nothing that the documents do not hold: a damaged one is told and made again when the
person asks for it; nothing is recovered from it. Rules for locks and logs are those of the chats
(`app/store/database.py`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from app.errors import Busy, DiskFull, StorageError, file_error
from app.knowledge import schema
from app.knowledge.errors import IndexDamaged, IndexNewer, KnowledgeError, typed
from app.paths import make_folder
from app.sanitize import single_line
from app.store.database import (
    BUSY_SECONDS,
    SQLITE_BUSY,
    SQLITE_CANTOPEN,
    SQLITE_CORRUPT,
    SQLITE_FULL,
    SQLITE_LOCKED,
    SQLITE_READONLY,
    Database,
    code_of,
    connect,
)
from app.store.locks import folder_lock

NAME = "index.sqlite3"
SUSPICION = ".check"
"""Ending of an empty file beside an index that showed damage: it is checked whole at the next
opening."""
CHECK_BYTES = 16 * 2**20
"""Up to this size an index is checked whole at each opening: 0.05 s."""

PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # A power cut may take the last documents back, which the next sync reads again.
    "PRAGMA synchronous = NORMAL",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16384",
)

SQLITE_NOTADB = 26


class IndexFile(Database):
    """One connection to an index. Raises KnowledgeError and its kinds, Busy and DiskFull."""

    def translated(self) -> AbstractContextManager[None]:
        return translated(self.path)

    def settle(self) -> None:
        """What was written lies in the log, which SQLite need not have sent to the disk."""
        if self.path is None:
            return
        try:
            with open(self.path.with_name(self.path.name + "-wal"), "r+b") as log:
                os.fsync(log.fileno())
        except FileNotFoundError:
            pass  # All is in the file.
        except OSError as error:
            raise file_error(error, self.path) from error

    def close(self) -> None:
        """Leaves nothing behind where another program has removed the base."""
        if self.path is not None and self.path.exists():
            super().close()
        else:
            self._connection.close()


def open_index_file(folder: Path) -> tuple[IndexFile, IndexFile]:
    """Connections for reading and for writing, so that no question waits for a document."""
    path = make_folder(folder) / NAME
    locks = locks_of(folder)
    with folder_lock(locks), translated(path):
        try:
            create(path)
            writes = open_checked(path)
            reads = connect(path)
            prepare(reads)
        except OSError as error:
            raise file_error(error, path) from error
    return IndexFile(reads, path, None), IndexFile(writes, path, locks)


def locks_of(folder: Path) -> Path:
    return folder / "locks"


def create(path: Path) -> None:
    """An empty file that only its owner can read; SQLite fills it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass


def open_checked(path: Path) -> sqlite3.Connection:
    """A whole and current index."""
    connection = connect(path)
    try:
        if path.stat().st_size and schema.application_of(connection) != schema.APPLICATION_ID:
            raise damaged(path, "it is not an index of localchat")
        prepare(connection)
        if (version := schema.version_of(connection)) > len(schema.STEPS):
            raise newer(path, version)
        if version and is_suspect(path):
            check(connection, path)
        if version < len(schema.STEPS):
            schema.migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection) -> None:
    for pragma in PRAGMAS:
        connection.execute(pragma).fetchall()


def is_suspect(path: Path) -> bool:
    return path.stat().st_size <= CHECK_BYTES or suspicion(path).exists()


def suspicion(path: Path) -> Path:
    return path.with_name(path.name + SUSPICION)


def check(connection: sqlite3.Connection, path: Path) -> None:
    (verdict, *_) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise damaged(path, single_line(verdict, 120))
    if suspicion(path).exists():
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        suspicion(path).unlink(missing_ok=True)


def damaged(path: Path, why: str) -> IndexDamaged:
    name = single_line(path.parent.name)
    return IndexDamaged(
        f"The index of {name} is damaged",
        f"{single_line(str(path))}: {why}. Your documents are untouched.",
        f"Make it again from the documents: `localchat kb sync {typed(name)} --rebuild`.",
    )


def newer(path: Path, version: int) -> IndexNewer:
    name = single_line(path.parent.name)
    return IndexNewer(
        f"The index of {name} was written by a newer localchat",
        f"{single_line(str(path))} has format {version}, this program knows formats up to"
        f" {len(schema.STEPS)}.",
        "Update localchat, or make the index again from the documents:"
        f" `localchat kb sync {typed(name)} --rebuild`.",
    )


@contextmanager
def translated(path: Path | None) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise index_error(error, path or Path(":memory:")) from error


def index_error(error: sqlite3.Error, path: Path) -> StorageError:
    """Words for an error of SQLite, with the name of the base."""
    code = code_of(error)
    name = single_line(path.parent.name)
    text = f"{single_line(str(path))}: {single_line(str(error))}."
    if code in (SQLITE_CORRUPT, SQLITE_NOTADB):
        mark_suspect(path)
        return damaged(path, single_line(str(error)))
    if code in (SQLITE_BUSY, SQLITE_LOCKED):
        return Busy(
            f"The index of {name} is in use by another program",
            f"{single_line(str(path))} was locked for {BUSY_SECONDS:.0f} seconds.",
            "Try again; if it stays so, end the other program.",
        )
    if code == SQLITE_FULL:
        return DiskFull("The disk is full", text, "Free some space, then sync again.")
    if code in (SQLITE_READONLY, SQLITE_CANTOPEN):
        return KnowledgeError(
            f"The index of {name} cannot be written",
            text,
            "Make the file and its folder writable, or choose another with LOCALCHAT_DATA_DIR.",
        )
    return KnowledgeError(
        f"The index of {name} cannot be read or written", text, "Check the disk, then try again."
    )


def mark_suspect(path: Path) -> None:
    try:
        suspicion(path).touch(mode=0o600)
    except OSError:
        pass  # The damage is told all the same.
