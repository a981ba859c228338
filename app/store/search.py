"""Finding chats by words. A query is words only: nothing in it is syntax.

What is newest comes first. Words are found by their beginning, without regard to case and accents,
through the index. What the index cannot find (scripts written without spaces, queries of
punctuation) is found by reading the texts.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from dataclasses import replace

from app.sanitize import single_line
from app.store.conversation import ChatSummary
from app.store.rows import summary_from

Found = tuple[list[int], dict[int, tuple[int, str]]]
"""Chats by title; chats by message, with the message and the place in it."""

UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean."""
WORD = re.compile(r"\w")
SNIPPET_SIDE = 40
"""Characters shown on each side of what was found."""
FOLDED = 20_000
"""Characters of a message in which an accented word is looked for, for its snippet only."""

BY_WORDS = """
SELECT messages.chat_id, messages.id, messages.text
FROM words JOIN messages ON messages.id = words.rowid JOIN chats ON chats.id = messages.chat_id
WHERE words MATCH ? AND chats.deleted IS NULL ORDER BY words.rowid DESC"""

BY_READING = """
SELECT messages.chat_id, max(messages.id), text
FROM messages JOIN chats ON chats.id = messages.chat_id
WHERE chats.deleted IS NULL AND status <> 'streaming' AND {condition}
GROUP BY messages.chat_id ORDER BY 2 DESC LIMIT ?"""

SUMMARY = """
SELECT id, title, created, updated, (SELECT count(*) FROM messages WHERE chat_id = chats.id)
FROM chats WHERE id = ?"""

TITLES_BY_WORDS = """
SELECT chats.id FROM title_words JOIN chats ON chats.id = title_words.rowid
WHERE title_words MATCH ? AND deleted IS NULL ORDER BY title_words.rowid DESC LIMIT ?"""

TITLES_BY_READING = """
SELECT id FROM chats WHERE deleted IS NULL AND {condition} ORDER BY updated DESC LIMIT ?"""


def find_chats(connection: sqlite3.Connection, query: str, limit: int) -> list[ChatSummary]:
    """Chats that hold all words of `query`, in titles first, then in the newest messages."""
    words = query.replace("\0", " ").split()
    if not words:
        return []
    if all(WORD.search(word) and not UNSPACED.search(word) for word in words):
        titles, snippets = find_by_words(connection, words, limit)
    else:
        titles, snippets = find_by_reading(connection, words, limit)
    order = dict.fromkeys([*titles, *snippets])
    return [summary(connection, chat_id, snippets.get(chat_id)) for chat_id in order][:limit]


def find_by_words(connection: sqlite3.Connection, words: list[str], limit: int) -> Found:
    query = match(words)
    titles = connection.execute(TITLES_BY_WORDS, (query, limit)).fetchall()
    hits: dict[int, tuple[int, str]] = {}
    for chat_id, message_id, text in connection.execute(BY_WORDS, (query,)):
        if chat_id not in hits:
            hits[chat_id] = (message_id, around(text, words[0]))
        if len(hits) == limit:
            break
    return [chat_id for (chat_id,) in titles], hits


def find_by_reading(connection: sqlite3.Connection, words: list[str], limit: int) -> Found:
    condition = " AND ".join(["instr(lower({0}), lower(?)) > 0"] * len(words))
    read_titles = TITLES_BY_READING.format(condition=condition.format("title"))
    read_messages = BY_READING.format(condition=condition.format("text"))
    titles = connection.execute(read_titles, (*words, limit)).fetchall()
    messages = connection.execute(read_messages, (*words, limit)).fetchall()
    return [chat_id for (chat_id,) in titles], {
        chat_id: (message_id, around(text, words[0])) for chat_id, message_id, text in messages
    }


def match(words: list[str]) -> str:
    """The words as quoted phrases, each found by its beginning."""
    return " ".join('"' + word.replace('"', '""') + '"*' for word in words)


def summary(
    connection: sqlite3.Connection, chat_id: int, hit: tuple[int, str] | None
) -> ChatSummary:
    row = connection.execute(SUMMARY, (chat_id,)).fetchone()
    plain = summary_from(row)
    return plain if hit is None else replace(plain, message_id=hit[0], snippet=hit[1])


def around(text: str, word: str) -> str:
    """One clean line of the text near `word`."""
    if len(text) <= 3 * SNIPPET_SIDE:
        return single_line(text)
    place = place_of(text, word)
    start, end = max(place - SNIPPET_SIDE, 0), place + len(word) + SNIPPET_SIDE
    head, tail = "…" if start else "", "…" if end < len(text) else ""
    return head + single_line(text[start:end]) + tail


def place_of(text: str, word: str) -> int:
    """Where the word stands, without regard to case and accents; the start where it is not
    found.
    """
    for pattern in (rf"\b{re.escape(word)}", re.escape(word)):
        if found := re.search(pattern, text, re.IGNORECASE):
            return found.start()
    return max(bare(text[:FOLDED]).find(bare(word)), 0)


def bare(text: str) -> str:
    """Small letters without accents, one for each character of the text."""
    return "".join(unicodedata.normalize("NFD", one)[0].lower()[0] for one in text)


def forget_deleted(connection: sqlite3.Connection) -> None:
    """Deleted words stay in an index until its parts are merged: merge them all now."""
    for table in ("words", "title_words"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")


def is_sound(connection: sqlite3.Connection) -> bool:
    """Whether both indexes say what the texts say. Reads everything."""
    try:
        for table in ("words", "title_words"):
            connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError:
        return False
    return True


def rebuild(connection: sqlite3.Connection) -> None:
    """Makes both indexes again from the texts."""
    for table in ("words", "title_words"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('rebuild')")
