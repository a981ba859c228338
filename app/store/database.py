"""One SQLite file, its connection and its transactions. It knows no table but `meta`.

One connection serves all threads of the process under a lock: operations are short. Other processes
have their own. Automatic checkpoints are off: SQLite 3.7.0 to 3.51.2 can lose a database when a
checkpoint meets another one or a reset of the log, so checkpoints run under the folder's lock only.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from app.errors import Busy, DiskFull, StorageError
from app.sanitize import single_line
from app.store.locks import folder_lock

BUSY_SECONDS = 5.0
LONG_LOG_BYTES = 32 * 2**20
"""An hour of streaming writes about 100 MB."""

PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
)

SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY = 5, 6, 8
SQLITE_CORRUPT, SQLITE_FULL, SQLITE_CANTOPEN = 11, 13, 14

SUSPICION = ".check"
"""Ending of an empty file beside a database that showed damage while it was open: check it all."""


def connect(path: Path | str, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode, for any thread; `:memory:` lives in memory."""
    if path == ":memory:":
        name = ":memory:"
    else:
        name = Path(path).absolute().as_uri() + ("?mode=ro" if read_only else "?mode=rw")
    return sqlite3.connect(
        name, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True
    )


def prepare(connection: sqlite3.Connection) -> None:
    for pragma in PRAGMAS:
        connection.execute(pragma).fetchall()


class Database:
    """An open, healthy database. Raises StorageError, Busy and DiskFull with the path in their
    text.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path | None, locks: Path | None
    ) -> None:
        self.path = path
        """None: in memory."""
        self._locks = locks
        self._connection = connection
        self._lock = threading.RLock()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One moment's view of everything, for a few short queries."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """All changes or none; on return they are on the disk."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            connection.execute("UPDATE meta SET changes = changes + 1")
            yield connection

    def translated(self) -> AbstractContextManager[None]:
        """SQLite's errors as ours, in the words that fit what the database holds."""
        return translated(self.path)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self.translated():
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def data_version(self) -> int:
        """Changes when another process or connection has written."""
        with self._lock, self.translated():
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def checkpoint(self, timeout: float = 10.0) -> bool:
        """Empties the log into the file, under the folder's lock; False when others keep it in
        use.
        """
        if self.path is None or self._locks is None:
            return True
        try:
            with self._lock, folder_lock(self._locks, timeout), self.translated():
                return truncate_log(self._connection)
        except Busy:
            return False

    def trim(self) -> None:
        """Empties a log that has grown long, if the folder is free this moment; else next time."""
        log = None if self.path is None else self.path.with_name(self.path.name + "-wal")
        if log is not None and log.exists() and log.stat().st_size > LONG_LOG_BYTES:
            self.checkpoint(timeout=0)

    def close(self) -> None:
        """Empties the log and closes; later calls do nothing."""
        with self._lock:
            if self.path is None or self._locks is None:
                self._connection.close()
                return
            try:
                with folder_lock(self._locks):
                    self._close()
            except StorageError:
                self._close()

    def _close(self) -> None:
        try:
            truncate_log(self._connection)
        except sqlite3.Error:
            # The log stays and is read at the next start: nothing is lost.
            pass
        self._connection.close()


def truncate_log(connection: sqlite3.Connection) -> bool:
    """Moves the log into the file and empties it. Call it under the folder's lock."""
    (blocked, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not blocked


@contextmanager
def translated(path: Path | None) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        if code_of(error) == SQLITE_CORRUPT and path is not None:
            path.with_name(path.name + SUSPICION).touch(mode=0o600)
        raise storage_error(error, path) from error


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 where the error has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def storage_error(error: sqlite3.Error, path: Path | None) -> StorageError:
    """Words for an error of SQLite, with the file's name."""
    code = code_of(error)
    place = single_line(str(path)) if path is not None else "memory"
    text = f"{place}: {single_line(str(error))}."
    if code in (SQLITE_BUSY, SQLITE_LOCKED):
        return Busy(
            "The chats are in use by another program",
            f"{place} was locked for {BUSY_SECONDS:.0f} seconds.",
            "Try again; if it stays so, end the other program.",
        )
    if code == SQLITE_FULL:
        return DiskFull("The disk is full", text, "Free some space, then try again.")
    if code in (SQLITE_READONLY, SQLITE_CANTOPEN):
        return StorageError(
            "The chats cannot be written",
            text,
            "Make the file and its folder writable, or choose another with LOCALCHAT_DATA_DIR.",
        )
    if code == SQLITE_CORRUPT:
        return StorageError(
            "The chats file is damaged", text, "Start localchat again: it repairs what it can."
        )
    return StorageError(
        "The chats cannot be read or written", text, "Check the disk, then start localchat again."
    )
