"""The word index inside an index file: what is put in front of a chunk, searched, and counted.

Functions over a connection; transactions are the caller's. The table holds no text, so a chunk's
words are taken out with the same text that they were put in with.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from app.knowledge import words
from app.knowledge.stored import WordHit

CHUNK_WORDS = """
SELECT chunks.id, names, headings, header, text
FROM chunks JOIN contents ON contents.id = content_id"""

SEARCH = """
SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"""

HOLDING = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid"


def searchable(names: str, headings: Sequence[str], header: str, text: str) -> str:
    """A chunk as the word index holds it: file names, headings and table header in front."""
    parts = (names, *headings, header, text)
    return words.segmented("\n".join(part for part in parts if part))


def insert_words(connection: sqlite3.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Chunk ids with their searchable text."""
    connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", rows)


def delete_words(connection: sqlite3.Connection, content_id: int) -> None:
    """Of all chunks of a document, as it is indexed now."""
    connection.executemany(
        "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
        list(stored_words(connection, "WHERE content_id = ?", content_id)),
    )


def add_words(connection: sqlite3.Connection, content_id: int) -> None:
    """Of all chunks of a document."""
    insert_words(connection, list(stored_words(connection, "WHERE content_id = ?", content_id)))


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the rules of this program made the table."""
    (rules,) = connection.execute("SELECT words_rules FROM meta").fetchone()
    return bool(rules == words.rules())


def refresh_words(connection: sqlite3.Connection, tell: Callable[[], None]) -> None:
    """Makes the whole table again; what `tell` raises on the way ends it."""
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    last = 0
    while rows := list(stored_words(connection, "WHERE chunks.id > ? LIMIT 1000", last)):
        tell()
        insert_words(connection, rows)
        last = rows[-1][0]
    connection.execute("UPDATE meta SET words_rules = ?", (words.rules(),))


def stored_words(
    connection: sqlite3.Connection, condition: str, *values: int
) -> Iterable[tuple[int, str]]:
    for chunk_id, names, headings, header, text in connection.execute(
        f"{CHUNK_WORDS} {condition}", values
    ):
        yield chunk_id, searchable(names, json.loads(headings), header, text)


def search(connection: sqlite3.Connection, terms: Sequence[str], limit: int) -> list[WordHit]:
    """Chunks with any of the terms, best first."""
    if not terms:
        return []
    match = " OR ".join(words.expression(term) for term in words.weighted(terms))
    rows = connection.execute(SEARCH, (match, limit)).fetchall()
    return [WordHit(chunk_id, max(bm25, 0.0)) for chunk_id, bm25 in rows]


def search_few(connection: sqlite3.Connection, terms: Sequence[str], limit: int) -> list[WordHit]:
    """The same where each word that a chunk has weighs one."""
    held: Counter[int] = Counter()
    for term in words.weighted(terms):
        held.update(one for (one,) in connection.execute(HOLDING, (words.expression(term),)))
    return [WordHit(chunk_id, float(number)) for chunk_id, number in held.most_common(limit)]


def count(connection: sqlite3.Connection, term: str) -> int:
    """Chunks that hold the term."""
    query = "SELECT count(*) FROM words WHERE words MATCH ?"
    return int(connection.execute(query, (words.expression(term),)).fetchone()[0])
