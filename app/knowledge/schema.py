"""The shape of an index file, as the steps that lead to it. `user_version` counts the steps taken.

A step is never changed after a release; a new shape is a new step at the end of `STEPS`.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x6C636B62
"""`lckb` in the file's header: the file is ours."""


def first_shape(connection: sqlite3.Connection) -> None:
    """Roots, files, documents, chunks, words, and the rows of vectors."""
    for statement in FIRST_SHAPE:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO meta (id, identity, changes, words_rules) VALUES (1, ?, 0, '')",
        (secrets.token_bytes(16),),
    )


FIRST_SHAPE = (
    """CREATE TABLE meta (
        id INTEGER PRIMARY KEY,
        identity BLOB NOT NULL,
        changes INTEGER NOT NULL,
        words_rules TEXT NOT NULL,
        synced REAL,
        calibration TEXT)""",
    # Paths are bytes: names on a disk need not be text.
    """CREATE TABLE roots (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        path BLOB NOT NULL UNIQUE,
        device INTEGER,
        is_missing INTEGER NOT NULL DEFAULT 0)""",
    # Documents by their bytes. `names` is what stands in front of each chunk in the word index:
    # a word is taken out of it only with the text that it was put in with.
    """CREATE TABLE contents (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        hash BLOB NOT NULL UNIQUE,
        rules TEXT NOT NULL,
        kind TEXT NOT NULL,
        title TEXT NOT NULL,
        names TEXT NOT NULL,
        hidden_characters INTEGER NOT NULL,
        notices TEXT NOT NULL)""",
    """CREATE TABLE files (
        id INTEGER PRIMARY KEY,
        root_id INTEGER NOT NULL REFERENCES roots (id),
        relative BLOB NOT NULL,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        ctime_ns INTEGER NOT NULL,
        device INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        hashed_ns INTEGER NOT NULL,
        hash BLOB,
        rules TEXT NOT NULL,
        state TEXT NOT NULL,
        content_id INTEGER REFERENCES contents (id),
        UNIQUE (root_id, relative))""",
    "CREATE INDEX files_by_content ON files (content_id)",
    "CREATE INDEX files_by_hash ON files (hash)",
    """CREATE TABLE chunks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        content_id INTEGER NOT NULL REFERENCES contents (id),
        position INTEGER NOT NULL,
        start INTEGER NOT NULL,
        end INTEGER NOT NULL,
        page INTEGER,
        last_page INTEGER,
        first_line INTEGER,
        last_line INTEGER,
        headings TEXT NOT NULL,
        header TEXT NOT NULL,
        key BLOB NOT NULL,
        text TEXT NOT NULL,
        UNIQUE (content_id, position))""",
    "CREATE INDEX chunks_by_key ON chunks (key)",
    # It keeps no text: what a chunk's words were is made again from the chunk.
    """CREATE VIRTUAL TABLE words USING fts5 (
        text, content = '', tokenize = 'porter unicode61 remove_diacritics 2')""",
    """CREATE TABLE vector_sets (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        fingerprint TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL,
        in_use INTEGER NOT NULL)""",
    # A vector belongs to a text, not to a chunk: it outlives renames and edits beside it.
    """CREATE TABLE vectors (
        set_id INTEGER NOT NULL REFERENCES vector_sets (id),
        key BLOB NOT NULL,
        row INTEGER NOT NULL,
        PRIMARY KEY (set_id, key),
        UNIQUE (set_id, row)) WITHOUT ROWID""",
)

STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (first_shape,)


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def application_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    """Takes the missing steps, all or none; the connection is in autocommit mode."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for number in range(version_of(connection), len(STEPS)):
            STEPS[number](connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(STEPS)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
