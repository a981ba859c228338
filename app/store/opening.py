"""Opening the database so that nothing a person wrote is lost, whatever state the files are in.

Under the folder's lock: make it where there is none; check it; migrate it with a backup before;
mark answers cut that a dead process left. What is damaged is set aside under a name with the time,
and what can be read goes into a new one. Nothing is ever overwritten. Each of this is told in
words.
"""

from __future__ import annotations

import glob
import os
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.errors import file_error
from app.paths import make_folder, sync_folder
from app.sanitize import single_line
from app.store import migrations, search
from app.store.database import (
    SQLITE_BUSY,
    SQLITE_CANTOPEN,
    SQLITE_FULL,
    SQLITE_LOCKED,
    SQLITE_READONLY,
    SUSPICION,
    Database,
    code_of,
    connect,
    prepare,
    translated,
    truncate_log,
)
from app.store.locks import folder_lock, is_answered_elsewhere
from app.store.recovery import Recovered, recover

SIDE_FILES = ("-wal", "-shm")
DEEP_CHECK_BYTES = 256 * 2**20
"""Up to this size indexes are compared with their tables at each start: 0.03 s for 75 MB."""
WORDS_CHECK_BYTES = 16 * 2**20
"""Up to this size the word index is compared with the texts at each start: 0.1 s; above it only
after an error."""

SQLITE_PERM = 3
SURROUNDINGS = frozenset(
    {SQLITE_PERM, SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY, SQLITE_FULL, SQLITE_CANTOPEN}
)

BACKUP = "format-"

HOLDS_DELETED = "It may still hold chats that you delete: remove it when you no longer need it."


class Damaged(Exception):
    """The file is not a whole database of ours; the reason is for people."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which database this is, and how often it was written."""

    identity: bytes
    changes: int


def open_database(path: Path, locks: Path) -> tuple[Database, list[str]]:
    """A healthy, current database and what happened on the way, in words."""
    make_folder(path.parent)
    notices: list[str] = []
    with folder_lock(locks), translated(path):
        try:
            make_ready(path, notices)
            connection = open_ready(path, notices)
        except OSError as error:
            raise file_error(error, path) from error
        end_dead_answers(connection, locks, notices)
        truncate_log(connection)
    return Database(connection, path, locks), notices


def open_in_memory() -> Database:
    connection = connect(":memory:")
    prepare(connection)
    migrations.migrate(connection)
    return Database(connection, None, None)


def make_ready(path: Path, notices: list[str]) -> None:
    """Afterwards a file lies there that looks like ours, with a log that belongs to it."""
    if not path.exists() and not path.is_symlink():
        if side_file(path, "-wal").exists():
            set_aside([side_file(path, "-wal")], notices, "it has no database", "A log")
        create(path)
    if path.is_dir():
        set_aside([path], notices, "it is a folder")
        create(path)
    try:
        check_log(path, notices)
    except (Damaged, sqlite3.DatabaseError) as error:
        if is_environment(error):
            raise
        replace_damaged(path, str(error), notices)


def open_ready(path: Path, notices: list[str]) -> sqlite3.Connection:
    """A checked and migrated connection; a damaged file is replaced once."""
    try:
        return open_checked(path, notices)
    except (Damaged, sqlite3.DatabaseError) as error:
        if is_environment(error):
            raise
        replace_damaged(path, str(error), notices)
        return open_checked(path, notices)


def is_environment(error: Exception) -> bool:
    """Whether the surroundings are at fault (read-only, full, locked), not the file's content."""
    return isinstance(error, sqlite3.OperationalError) and code_of(error) in SURROUNDINGS


def create(path: Path) -> None:
    """Makes an empty database beside, complete, and moves it into place."""
    new = path.with_name(f"{path.name}.new-{os.getpid()}")
    remove(new)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = connect(new)
    try:
        prepare(connection)
        migrations.migrate(connection)
        truncate_log(connection)
    finally:
        connection.close()
    new.replace(path)
    sync_folder(path.parent)


def remove(path: Path) -> None:
    for name in ("", *SIDE_FILES):
        side_file(path, name).unlink(missing_ok=True)


def side_file(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


# ---- checks


def check_log(path: Path, notices: list[str]) -> None:
    """Sets a -wal aside that belongs to another database, or to an older state of this one."""
    log = side_file(path, "-wal")
    if path.stat().st_size == 0:
        raise Damaged("it is empty")
    if not log.exists() or log.stat().st_size == 0:
        return
    alone = read_identity(path, "mode=ro&immutable=1")
    if alone is None:
        return
    together = read_identity(path, "mode=ro")
    if together is None:
        raise Damaged("its log does not fit")
    if together.identity != alone.identity or together.changes < alone.changes:
        set_aside([log], notices, "it belongs to another state of the chats", "The log")
        side_file(path, "-shm").unlink(missing_ok=True)


def read_identity(path: Path, mode: str) -> Identity | None:
    """As the file says, with or without its log; None where it says nothing."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
    try:
        row = connection.execute("SELECT identity, changes FROM meta").fetchone()
    except sqlite3.DatabaseError as error:
        if is_environment(error):
            raise
        return None
    finally:
        connection.close()
    return None if row is None else Identity(bytes(row[0]), int(row[1]))


def open_checked(path: Path, notices: list[str]) -> sqlite3.Connection:
    """Raises Damaged or DatabaseError where anything is wrong with the content."""
    connection = connect(path)
    try:
        check_header(connection, path)
        prepare(connection)
        check_pages(connection, path)
        if migrations.version_of(connection) < len(migrations.STEPS):
            back_up(connection, path)
            migrations.migrate(connection, migrations.STEPS)
        check_words(connection, path, notices)
        os.chmod(path, 0o600)
    except BaseException:
        connection.close()
        raise
    return connection


def check_header(connection: sqlite3.Connection, path: Path) -> None:
    version = migrations.version_of(connection)
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != migrations.APPLICATION_ID or version < 1:
        raise Damaged("it is not a database of localchat")
    migrations.refuse_newer(version, len(migrations.STEPS), single_line(str(path)))


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    kind = "integrity_check" if path.stat().st_size <= DEEP_CHECK_BYTES else "quick_check"
    (verdict, *_) = connection.execute(f"PRAGMA {kind}(1)").fetchone()
    if verdict != "ok":
        raise Damaged(single_line(verdict, 120))


def check_words(connection: sqlite3.Connection, path: Path, notices: list[str]) -> None:
    """A damaged word index costs nothing: it is made again."""
    suspicion = side_file(path, SUSPICION)
    if path.stat().st_size > WORDS_CHECK_BYTES and not suspicion.exists():
        return
    if not search.is_sound(connection):
        search.rebuild(connection)
        notices.append("The search index was damaged and has been made again.")
    suspicion.unlink(missing_ok=True)


def end_dead_answers(connection: sqlite3.Connection, locks: Path, notices: list[str]) -> None:
    """Answers that no living process writes any more become `cut`."""
    rows = connection.execute("SELECT DISTINCT chat_id FROM messages WHERE status = 'streaming'")
    dead = [chat_id for (chat_id,) in rows.fetchall() if not is_answered_elsewhere(locks, chat_id)]
    if not dead:
        return
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE meta SET changes = changes + 1")
    cut = connection.executemany(
        "UPDATE messages SET status = 'cut' WHERE chat_id = ? AND status = 'streaming'",
        [(chat_id,) for chat_id in dead],
    ).rowcount
    connection.execute("COMMIT")
    answers = "One answer was" if cut == 1 else f"{cut} answers were"
    notices.append(f"{answers} cut off when localchat ended; what had been written is kept.")


# ---- keeping what was there


def back_up(connection: sqlite3.Connection, path: Path) -> Path:
    """A copy of the database as it is, before its shape changes."""
    version = migrations.version_of(connection)
    target = free_name(path, f"{BACKUP}{version}")
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    copy = connect(target)
    try:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        copy.close()
    sync_folder(path.parent)
    return target


def drop_backups(path: Path) -> None:
    """Removes the copies that `back_up` made: they hold what is deleted for good now."""
    for copy in path.parent.glob(f"{glob.escape(path.name)}.{BACKUP}*"):
        copy.unlink(missing_ok=True)


def set_aside(
    files: Sequence[Path], notices: list[str], reason: str, what: str = "The chats file"
) -> list[Path]:
    """Renames what is there; the names are told."""
    moved = []
    for file in files:
        if file.exists() or file.is_symlink():
            target = free_name(file, "damaged")
            file.rename(target)
            moved.append(target)
    if moved:
        names = single_line(str(moved[0]))
        notices.append(f"{what} could not be used ({reason}). It was kept as {names}.")
    return moved


def free_name(path: Path, word: str) -> Path:
    """`NAME.WORD-20260131-235959`, with a number where that is taken."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = path.with_name(f"{path.name}.{word}-{stamp}")
    number = 1
    while name.exists() or name.is_symlink():
        number += 1
        name = path.with_name(f"{path.name}.{word}-{stamp}-{number}")
    return name


def replace_damaged(path: Path, reason: str, notices: list[str]) -> None:
    """Sets the database and its log aside and puts a new one with all that can be read in its
    place.
    """
    new = path.with_name(f"{path.name}.recovered-{os.getpid()}")
    remove(new)
    create(new)
    connection = connect(new)
    try:
        prepare(connection)
        found = recover(path, side_file(path, "-wal"), connection)
        truncate_log(connection)
    finally:
        connection.close()
    set_aside([path, side_file(path, "-wal")], notices, reason)
    side_file(path, "-shm").unlink(missing_ok=True)
    new.replace(path)
    sync_folder(path.parent)
    notices.append(told(found))


def told(found: Recovered) -> str:
    if not found.chats:
        return f"No chat could be read in it; localchat starts with an empty list. {HOLDS_DELETED}"
    return f"{found.chats} chats with {found.messages} messages were recovered. {HOLDS_DELETED}"
