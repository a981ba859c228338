"""The shape of the database, as the steps that lead to it. `user_version` counts the steps taken.

A step is never changed after a release; a new shape is a new step at the end of `STEPS`.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable

from app.errors import StorageError

APPLICATION_ID = 0x6C636861
"""`lcha` in the file's header: the file is ours."""


def first_shape(connection: sqlite3.Connection) -> None:
    """Chats, their tree of messages, drafts, and the word index that triggers keep."""
    for statement in FIRST_SHAPE:
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES (1, ?, 0)", (secrets.token_bytes(16),))


FIRST_SHAPE = (
    # `changes` grows with every write: with `identity` it tells which -wal file belongs to which
    # database.
    "CREATE TABLE meta (id INTEGER PRIMARY KEY, identity BLOB NOT NULL, changes INTEGER NOT NULL)",
    """CREATE TABLE chats (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        title_source TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        date TEXT NOT NULL,
        system TEXT,
        current_leaf INTEGER,
        deleted REAL)""",
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat_id INTEGER NOT NULL REFERENCES chats (id),
        parent_id INTEGER REFERENCES messages (id) DEFERRABLE INITIALLY DEFERRED,
        role TEXT NOT NULL,
        status TEXT NOT NULL,
        created REAL NOT NULL,
        tokenizer TEXT NOT NULL,
        info TEXT,
        text TEXT NOT NULL,
        reasoning TEXT NOT NULL,
        ids BLOB)""",
    "CREATE TABLE drafts (chat_id INTEGER PRIMARY KEY, text TEXT NOT NULL, updated REAL NOT NULL)",
    "CREATE INDEX messages_by_chat ON messages (chat_id)",
    "CREATE INDEX messages_by_parent ON messages (parent_id)",
    "CREATE INDEX messages_streaming ON messages (chat_id) WHERE status = 'streaming'",
    "CREATE INDEX chats_by_time ON chats (updated)",
    # An answer that is still being written is not indexed: its row changes each second.
    "CREATE VIEW finished AS SELECT id, text FROM messages WHERE status <> 'streaming'",
    """CREATE VIRTUAL TABLE words USING fts5 (
        text, content = 'finished', content_rowid = 'id',
        tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3')""",
    """CREATE TRIGGER words_insert AFTER INSERT ON messages WHEN new.status <> 'streaming' BEGIN
        INSERT INTO words (rowid, text) VALUES (new.id, new.text);
    END""",
    """CREATE TRIGGER words_delete AFTER DELETE ON messages WHEN old.status <> 'streaming' BEGIN
        INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
    END""",
    """CREATE TRIGGER words_update AFTER UPDATE OF text, status ON messages BEGIN
        INSERT INTO words (words, rowid, text)
            SELECT 'delete', old.id, old.text WHERE old.status <> 'streaming';
        INSERT INTO words (rowid, text) SELECT new.id, new.text WHERE new.status <> 'streaming';
    END""",
    """CREATE VIRTUAL TABLE title_words USING fts5 (
        title, content = 'chats', content_rowid = 'id',
        tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3')""",
    """CREATE TRIGGER title_words_insert AFTER INSERT ON chats BEGIN
        INSERT INTO title_words (rowid, title) VALUES (new.id, new.title);
    END""",
    """CREATE TRIGGER title_words_delete AFTER DELETE ON chats BEGIN
        INSERT INTO title_words (title_words, rowid, title) VALUES ('delete', old.id, old.title);
    END""",
    """CREATE TRIGGER title_words_update AFTER UPDATE OF title ON chats BEGIN
        INSERT INTO title_words (title_words, rowid, title) VALUES ('delete', old.id, old.title);
        INSERT INTO title_words (rowid, title) VALUES (new.id, new.title);
    END""",
)


def documents(connection: sqlite3.Connection) -> None:
    """Questions keep the documents beside them, answers their citations, both as JSON."""
    connection.execute("ALTER TABLE messages ADD COLUMN sources TEXT")
    connection.execute("ALTER TABLE messages ADD COLUMN cited TEXT")


def pasted(connection: sqlite3.Connection) -> None:
    """Drafts keep what of them was pasted, as JSON."""
    connection.execute("ALTER TABLE drafts ADD COLUMN pasted TEXT")


STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (first_shape, documents, pasted)


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(version: int, known: int, path: str) -> None:
    """Raises StorageError for a database from a later release."""
    if version > known:
        raise StorageError(
            "The chats were written by a newer localchat",
            f"{path} has format {version}, this program knows formats up to {known}.",
            "Update localchat, or choose another folder with LOCALCHAT_DATA_DIR.",
        )


def migrate(
    connection: sqlite3.Connection,
    steps: tuple[Callable[[sqlite3.Connection], None], ...] = STEPS,
) -> None:
    """Takes the missing steps, all or none; the connection is in autocommit mode."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for number in range(version_of(connection), len(steps)):
            steps[number](connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
