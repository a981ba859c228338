"""The tree of a chat's messages: paths, siblings, leaves, subtrees. Queries over an open
transaction.
"""

from __future__ import annotations

import sqlite3

from app.errors import NotFound
from app.store.conversation import Message
from app.store.rows import MESSAGE_COLUMNS, message_from

PATH = f"""
WITH RECURSIVE path (id, depth) AS (
    SELECT id, 0 FROM messages WHERE id = ?
    UNION ALL
    SELECT messages.parent_id, depth + 1 FROM messages JOIN path USING (id)
    WHERE messages.parent_id IS NOT NULL)
SELECT {", ".join("messages." + name for name in MESSAGE_COLUMNS.split(", "))}
FROM path JOIN messages USING (id) ORDER BY depth DESC"""

BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM messages WHERE id = ?
    UNION ALL
    SELECT messages.id FROM messages JOIN below ON messages.parent_id = below.id)
"""


def message(connection: sqlite3.Connection, message_id: int) -> Message:
    row = connection.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id = ?", (message_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no message {message_id}", "", "List them with `chats show`.")
    return message_from(row)


def path(connection: sqlite3.Connection, leaf: int | None) -> list[Message]:
    """From the first message to `leaf`."""
    return [message_from(row) for row in connection.execute(PATH, (leaf,))]


def messages(connection: sqlite3.Connection, chat_id: int) -> list[Message]:
    """Of all branches, in order of creation."""
    rows = connection.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE chat_id = ? ORDER BY id", (chat_id,)
    )
    return [message_from(row) for row in rows]


def siblings(connection: sqlite3.Connection, of: Message) -> list[int]:
    """All messages with the same parent, itself included, in order of creation."""
    found = connection.execute(
        "SELECT id FROM messages WHERE chat_id = ? AND parent_id IS ? ORDER BY id",
        (of.chat_id, of.parent_id),
    )
    return [row[0] for row in found]


def subtree(connection: sqlite3.Connection, message_id: int) -> list[int]:
    """The message and all below it."""
    found = connection.execute(BELOW + "SELECT id FROM below ORDER BY id", (message_id,))
    return [row[0] for row in found]


def newest_leaf(connection: sqlite3.Connection, message_id: int) -> int:
    """The message without children, at or below `message_id`, that was made last."""
    query = BELOW + (
        "SELECT max(id) FROM below "
        "WHERE NOT EXISTS (SELECT 1 FROM messages WHERE messages.parent_id = below.id)"
    )
    return int(connection.execute(query, (message_id,)).fetchone()[0])


def leaf_after_delete(connection: sqlite3.Connection, gone: Message) -> int | None:
    """Where to stand once `gone` and what is below it are away: the newest leaf of what is left
    there.
    """
    if gone.parent_id is not None:
        return newest_leaf(connection, gone.parent_id)
    row = connection.execute(
        "SELECT max(id) FROM messages AS leaf WHERE chat_id = ? "
        "AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.parent_id = leaf.id)",
        (gone.chat_id,),
    ).fetchone()
    return None if row[0] is None else int(row[0])
