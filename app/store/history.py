"""All conversations of a data folder. The only door to the database for the rest of the program.

Every change is on the disk before its call returns. It may be used from several threads, and
several processes may have one open; who answers or edits a conversation holds its lock
(`app/store/locks.py`). It knows neither the engine nor the screen.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from app.errors import NotFound, StorageError
from app.knowledge.given import written
from app.knowledge.sources import Sources
from app.store import search, tree
from app.store.conversation import (
    AnswerInfo,
    Chat,
    ChatSummary,
    Message,
    Role,
    Status,
    TitleSource,
)
from app.store.database import Database
from app.store.draft import KeptDraft, Pasted
from app.store.opening import drop_backups, open_database, open_in_memory
from app.store.rows import (
    CHAT_COLUMNS,
    Cited,
    chat_from,
    pack,
    pack_ids,
    pack_info,
    summary_from,
    unpack,
)
from app.store.text import storable
from app.store.titles import title_from

SUMMARIES = """
SELECT id, title, created, updated,
    (SELECT count(*) FROM messages WHERE messages.chat_id = chats.id)
FROM chats WHERE deleted IS {state} ORDER BY updated DESC, id DESC LIMIT ?"""

INSERT_MESSAGE = """
INSERT INTO messages (chat_id, parent_id, role, status, created, tokenizer, info, text, reasoning)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, '')"""

FINISH = """
UPDATE messages SET status = :status, text = :text, reasoning = :reasoning, ids = :ids,
    tokenizer = ifnull(:tokenizer, tokenizer), info = ifnull(:info, info), cited = :cited
WHERE id = :id"""


class History:
    """See the module. Raises StorageError, Busy, DiskFull and NotFound."""

    def __init__(
        self, database: Database, notices: list[str], clock: Callable[[], float] = time.time
    ) -> None:
        self.notices = notices
        """What happened at opening that a person must know, in words."""
        self._database = database
        self._clock = clock

    @classmethod
    def open(cls, path: Path, locks: Path) -> History:
        """Opens or makes the database; a damaged one is set aside, what is readable is recovered.

        The path `:memory:` is the same as `in_memory`.
        """
        if str(path) == ":memory:":
            return cls.in_memory()
        database, notices = open_database(path, locks)
        return cls(database, notices)

    @classmethod
    def in_memory(cls) -> History:
        """A history that leaves no trace: for private chats and `--no-save`."""
        return cls(open_in_memory(), [])

    @property
    def private(self) -> bool:
        return self._database.path is None

    # ---- chats

    def new_chat(self, system: str | None = None, title: str | None = None) -> Chat:
        now = self._clock()
        source: TitleSource = "none" if title is None else "person"
        with self._database.write() as connection:
            cursor = connection.execute(
                "INSERT INTO chats (title, title_source, created, updated, date, system) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (
                    storable(title or ""),
                    source,
                    now,
                    now,
                    date.fromtimestamp(now).isoformat(),
                    None if system is None else storable(system),
                ),
            )
            return self._chat(connection, inserted(cursor))

    def chats(self, query: str | None = None, limit: int = 200) -> list[ChatSummary]:
        """The newest first; with a query those whose title or messages hold all its words."""
        if query is not None and query.strip():
            return self.search(query, limit)
        with self._database.read() as connection:
            rows = connection.execute(SUMMARIES.format(state="NULL"), (limit,))
            return [summary_from(row) for row in rows]

    def search(self, query: str, limit: int = 50) -> list[ChatSummary]:
        """Chats that hold the words, in titles first, then the newest, with the place where."""
        with self._database.read() as connection:
            return search.find_chats(connection, storable(query), limit)

    def chat(self, chat_id: int) -> Chat:
        with self._database.read() as connection:
            return self._chat(connection, chat_id)

    def latest(self) -> Chat | None:
        """The chat that changed last."""
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {CHAT_COLUMNS} FROM chats WHERE deleted IS NULL "
                "ORDER BY updated DESC, id DESC LIMIT 1"
            ).fetchone()
            return None if row is None else chat_from(row, self.private)

    def rename(self, chat_id: int, title: str, source: TitleSource = "person") -> Chat:
        with self._database.write() as connection:
            self._chat(connection, chat_id)
            connection.execute(
                "UPDATE chats SET title = ?, title_source = ? WHERE id = ?",
                (storable(title), source, chat_id),
            )
            return self._chat(connection, chat_id)

    def _chat(self, connection: sqlite3.Connection, chat_id: int) -> Chat:
        row = connection.execute(
            f"SELECT {CHAT_COLUMNS} FROM chats WHERE id = ? AND deleted IS NULL", (chat_id,)
        ).fetchone()
        if row is None:
            raise NotFound(f"There is no chat {chat_id}", "", "List them with `localchat chats`.")
        return chat_from(row, self.private)

    # ---- messages

    def path(self, chat_id: int, leaf: int | None = None) -> list[Message]:
        """From the first message to `leaf`, or to the chat's current leaf."""
        with self._database.read() as connection:
            chat = self._chat(connection, chat_id)
            if leaf is None:
                return tree.path(connection, chat.current_leaf)
            require_in(chat_id, tree.message(connection, leaf))
            return tree.path(connection, leaf)

    def messages(self, chat_id: int) -> list[Message]:
        """All messages of all branches, in order of creation: each after its parent."""
        with self._database.read() as connection:
            self._chat(connection, chat_id)
            return tree.messages(connection, chat_id)

    def message(self, message_id: int) -> Message:
        with self._database.read() as connection:
            return tree.message(connection, message_id)

    def siblings(self, message_id: int) -> list[int]:
        """Messages with the same parent, itself included, in order of creation."""
        with self._database.read() as connection:
            return tree.siblings(connection, tree.message(connection, message_id))

    def add_user(
        self, chat_id: int, parent_id: int | None, text: str, sources: Sources | None = None
    ) -> Message:
        """A question below `parent_id` (None: a first message); it becomes the current leaf."""
        said = written(text, None if sources is None else sources.given)
        with self._database.write() as connection:
            chat = self._chat(connection, chat_id)
            if chat.title_source == "none":
                connection.execute(
                    "UPDATE chats SET title = ?, title_source = 'first line' WHERE id = ?",
                    (title_from(storable(said)), chat_id),
                )
            asked = self._insert(connection, chat_id, parent_id, "user", "complete", text, None)
            return asked if sources is None else set_sources(connection, asked.id, sources)

    def set_sources(self, message_id: int, sources: Sources | None) -> Message:
        """The documents that stand beside a question from now on."""
        with self._database.write() as connection:
            return set_sources(connection, message_id, sources)

    def begin_answer(
        self, chat_id: int, parent_id: int | None, info: AnswerInfo | None = None
    ) -> Message:
        """An empty answer that is being written; it becomes the current leaf."""
        with self._database.write() as connection:
            self._chat(connection, chat_id)
            return self._insert(connection, chat_id, parent_id, "assistant", "streaming", "", info)

    def resume_answer(self, message_id: int) -> Message:
        """An answer goes on being written from where it ends; it becomes the current leaf."""
        with self._database.write() as connection:
            answer = tree.message(connection, message_id)
            connection.execute(
                "UPDATE messages SET status = 'streaming' WHERE id = ?", (message_id,)
            )
            self._stand_at(connection, answer.chat_id, message_id)
            return tree.message(connection, message_id)

    def journal(self, message_id: int, text: str, reasoning: str, ids: tuple[int, ...]) -> None:
        """Saves how far an answer has come; call it once a second while one is written."""
        with self._database.write() as connection:
            changed = connection.execute(
                "UPDATE messages SET text = ?, reasoning = ?, ids = ? WHERE id = ?",
                (storable(text), storable(reasoning), pack_ids(ids), message_id),
            )
            if changed.rowcount == 0:
                tree.message(connection, message_id)

    def finish_answer(
        self,
        message_id: int,
        status: Status,
        text: str,
        reasoning: str = "",
        ids: tuple[int, ...] = (),
        info: AnswerInfo | None = None,
        cited: Cited | None = None,
    ) -> Message:
        """The answer as it stays. `info` None keeps what `begin_answer` was given."""
        with self._database.write() as connection:
            answer = tree.message(connection, message_id)
            connection.execute(
                FINISH,
                {
                    "id": message_id,
                    "status": status,
                    "text": storable(text),
                    "reasoning": storable(reasoning),
                    "ids": pack_ids(ids),
                    "tokenizer": None if info is None else storable(info.tokenizer),
                    "info": pack_info(info),
                    "cited": None if cited is None else pack(cited),
                },
            )
            self._touch(connection, answer.chat_id)
            finished = tree.message(connection, message_id)
        self._database.trim()
        return finished

    def select(self, message_id: int) -> Chat:
        """Makes the branch of a message current, down to its newest leaf."""
        with self._database.write() as connection:
            chosen = tree.message(connection, message_id)
            leaf = tree.newest_leaf(connection, message_id)
            connection.execute(
                "UPDATE chats SET current_leaf = ? WHERE id = ?", (leaf, chosen.chat_id)
            )
            return self._chat(connection, chosen.chat_id)

    def _insert(
        self,
        connection: sqlite3.Connection,
        chat_id: int,
        parent_id: int | None,
        role: Role,
        status: Status,
        text: str,
        info: AnswerInfo | None,
    ) -> Message:
        if parent_id is not None:
            require_in(chat_id, tree.message(connection, parent_id))
        tokenizer = "" if info is None else storable(info.tokenizer)
        row = (chat_id, parent_id, role, status, self._clock(), tokenizer, pack_info(info))
        cursor = connection.execute(INSERT_MESSAGE, (*row, storable(text)))
        message_id = inserted(cursor)
        self._stand_at(connection, chat_id, message_id)
        return tree.message(connection, message_id)

    def _stand_at(self, connection: sqlite3.Connection, chat_id: int, leaf: int | None) -> None:
        connection.execute("UPDATE chats SET current_leaf = ? WHERE id = ?", (leaf, chat_id))
        self._touch(connection, chat_id)

    def _touch(self, connection: sqlite3.Connection, chat_id: int) -> None:
        connection.execute("UPDATE chats SET updated = ? WHERE id = ?", (self._clock(), chat_id))

    # ---- deleting

    def subtree_count(self, message_id: int) -> int:
        """How many messages `delete_subtree` would delete."""
        with self._database.read() as connection:
            tree.message(connection, message_id)
            return len(tree.subtree(connection, message_id))

    def delete_subtree(self, message_id: int) -> int | None:
        """Deletes a message and all below it for good, nothing else; returns the chat's current
        leaf.
        """
        with self._database.write() as connection:
            gone = tree.message(connection, message_id)
            chat = self._chat(connection, gone.chat_id)
            ids = tree.subtree(connection, message_id)
            connection.executemany("DELETE FROM messages WHERE id = ?", [(one,) for one in ids])
            leaf = chat.current_leaf
            if leaf in ids:
                leaf = tree.leaf_after_delete(connection, gone)
            self._stand_at(connection, gone.chat_id, leaf)
        self._wipe()
        return leaf

    def delete_chat(self, chat_id: int) -> None:
        """Hides a chat from everything; `undo_delete` brings it back until `purge`."""
        with self._database.write() as connection:
            self._chat(connection, chat_id)
            connection.execute(
                "UPDATE chats SET deleted = ? WHERE id = ?", (self._clock(), chat_id)
            )

    def undo_delete(self, chat_id: int) -> Chat:
        with self._database.write() as connection:
            connection.execute("UPDATE chats SET deleted = NULL WHERE id = ?", (chat_id,))
            return self._chat(connection, chat_id)

    def pending_deletes(self) -> list[ChatSummary]:
        """Chats that are deleted and not purged yet, also those left by a process that died."""
        with self._database.read() as connection:
            rows = connection.execute(SUMMARIES.format(state="NOT NULL"), (-1,))
            return [summary_from(row) for row in rows]

    def purge(self, chat_id: int) -> None:
        """Removes a chat, its index entries, ids and draft from the file itself."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM messages WHERE chat_id = ?", (chat_id,))
            connection.execute("DELETE FROM drafts WHERE chat_id = ?", (chat_id,))
            connection.execute("DELETE FROM chats WHERE id = ?", (chat_id,))
        self._wipe()

    def _wipe(self) -> None:
        """Deleted words leave the index, old pages the log, copies of older shapes the folder."""
        with self._database.write() as connection:
            search.forget_deleted(connection)
        self._database.checkpoint()
        if self._database.path is not None:
            drop_backups(self._database.path)

    # ---- drafts

    def draft(self, chat_id: int | None) -> KeptDraft:
        """What was written and not sent; None: in the chat that does not exist yet."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT text, pasted FROM drafts WHERE chat_id = ?", (chat_id or 0,)
            ).fetchone()
        if row is None:
            return KeptDraft()
        return KeptDraft(str(row[0]), unpack(row[1], tuple[Pasted, ...]) or ())

    def save_draft(self, chat_id: int | None, draft: KeptDraft) -> None:
        with self._database.write() as connection:
            if draft.text:
                connection.execute(
                    "INSERT OR REPLACE INTO drafts (chat_id, text, updated, pasted) "
                    "VALUES (?, ?, ?, ?)",
                    (chat_id or 0, storable(draft.text), self._clock(), pack(draft.pasted)),
                )
            else:
                connection.execute("DELETE FROM drafts WHERE chat_id = ?", (chat_id or 0,))

    # ---- the file

    def data_version(self) -> int:
        """Changes when another process has written: time to read lists again."""
        return self._database.data_version()

    def close(self) -> None:
        self._database.close()


def set_sources(
    connection: sqlite3.Connection, message_id: int, sources: Sources | None
) -> Message:
    packed = None if sources is None else pack(sources)
    connection.execute("UPDATE messages SET sources = ? WHERE id = ?", (packed, message_id))
    return tree.message(connection, message_id)


def require_in(chat_id: int, message: Message) -> None:
    if message.chat_id != chat_id:
        raise NotFound(
            f"Message {message.id} is not in chat {chat_id}", "", "List them with `chats show`."
        )


def inserted(cursor: sqlite3.Cursor) -> int:
    """The id that an INSERT gave."""
    if cursor.lastrowid is None:
        raise StorageError("A row got no number")
    return cursor.lastrowid
