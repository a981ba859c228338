"""Chunks and documents read out of an index file. Functions over a connection."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from app.knowledge.chunking import SENTENCE
from app.knowledge.stored import StoredChunk
from app.knowledge.words import terms
from app.sanitize import single_line

BATCH = 500
"""Values in one query; SQLite takes 999 at least."""
OTHER_NAMES = 50
"""Files with the same bytes that are named."""

CHUNKS = """
SELECT chunks.id, content_id, position, start, end, page, last_page, first_line, last_line,
    headings, header, text, title, hidden_characters
FROM chunks JOIN contents ON contents.id = content_id"""

FILES = """
SELECT content_id, roots.path, relative, mtime_ns
FROM files JOIN roots ON roots.id = root_id
WHERE content_id IN ({marks}) ORDER BY mtime_ns DESC, relative, root_id"""

DOCUMENTS = """
SELECT content_id, roots.path, relative FROM files JOIN roots ON roots.id = root_id
WHERE content_id IS NOT NULL ORDER BY mtime_ns DESC, relative, root_id"""

LEAST_TERMS, MOST_SENTENCE = 4, 300
"""Words that a sentence must have, and characters that it may have."""


@dataclass(frozen=True, slots=True)
class FileNames:
    """The files of one document."""

    path: Path
    """Of the newest."""
    names: tuple[str, ...]
    """Newest first, escaped for people."""
    modified_ns: int
    """Of the newest."""


def count(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM chunks").fetchone()[0])


def by_ids(connection: Connection, ids: Sequence[int]) -> list[StoredChunk]:
    """In the order of `ids`; those that are gone, or whose files are, are left out."""
    found = {}
    for batch in batches(ids):
        rows = connection.execute(f"{CHUNKS} WHERE chunks.id IN ({marks(batch)})", batch)
        found.update({row[0]: row for row in rows})
    return stored(connection, [found[chunk_id] for chunk_id in ids if chunk_id in found])


def of_document(connection: Connection, content_id: int) -> list[StoredChunk]:
    rows = connection.execute(f"{CHUNKS} WHERE content_id = ? ORDER BY position", (content_id,))
    return stored(connection, rows.fetchall())


def stored(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> list[StoredChunk]:
    files = file_names(connection, {row[1] for row in rows})
    return [chunk_from(row, files[row[1]]) for row in rows if row[1] in files]


def chunk_from(row: tuple[Any, ...], files: FileNames) -> StoredChunk:
    chunk_id, content_id, position, start, end, page, last_page, first_line, last_line = row[:9]
    headings, header, text, title, hidden = row[9:]
    above = tuple(json.loads(headings))
    return StoredChunk(
        id=chunk_id,
        content_id=content_id,
        path=files.path,
        name=files.names[0],
        other_names=files.names[1:],
        order=position,
        text=text,
        header=header,
        headings=above,
        start=start,
        end=end,
        page=page,
        last_page=last_page,
        first_line=first_line,
        last_line=last_line,
        # The first in the order of names, not the newest: it must not change with every touch.
        embed_text=embed_text(min(files.names), above, header, text),
        hidden_characters=hidden,
        title=title,
        modified_ns=files.modified_ns,
    )


def embed_text(name: str, headings: Sequence[str], header: str, text: str) -> str:
    """A chunk as it is embedded: where it stands, then what it says."""
    place = " › ".join((os.path.splitext(name.rpartition("/")[2])[0], *headings))
    return "\n".join(part for part in (place, header, text) if part)


def file_names(connection: Connection, content_ids: Iterable[int]) -> dict[int, FileNames]:
    """Documents without a file are left out."""
    found: dict[int, FileNames] = {}
    for batch in batches(list(content_ids)):
        for content_id, root, relative, modified_ns in connection.execute(
            FILES.format(marks=marks(batch)), batch
        ):
            name = shown(root, relative)
            there = found.get(content_id)
            if there is None:
                found[content_id] = FileNames(path_of(root, relative), (name,), modified_ns)
            elif len(there.names) <= OTHER_NAMES:
                found[content_id] = replace(there, names=(*there.names, name))
    return found


def path_of(root: bytes, relative: bytes) -> Path:
    return Path(os.fsdecode(root)) / os.fsdecode(relative)


def shown(root: bytes, relative: bytes) -> str:
    """A name for people. A root that is a file has no path relative to itself."""
    return single_line(os.fsdecode(relative or os.path.basename(root)))


def documents(connection: Connection, name: str) -> list[int]:
    """Documents, newest file first; of files whose name holds `name`."""
    wanted = name.casefold()
    return list(
        dict.fromkeys(
            content_id
            for content_id, root, relative in connection.execute(DOCUMENTS)
            if wanted in shown(root, relative).casefold()
        )
    )


def joined(chunks: Sequence[StoredChunk]) -> str:
    """The document's text, as far as its chunks hold it; the rest is newlines."""
    pieces: list[str] = []
    place = 0
    for chunk in chunks:
        pieces += ["\n" * (chunk.start - place), chunk.text]
        place = chunk.end
    return "".join(pieces)


def sentences(connection: Connection, count: int) -> list[str]:
    """At most one of a text, chosen by the text's hash: chance that repeats itself."""
    found: list[str] = []
    for key, text in connection.execute("SELECT key, text FROM chunks GROUP BY key ORDER BY key"):
        fit = [part.strip() for part in split(text)]
        fit = [
            part for part in fit if len(part) <= MOST_SENTENCE and len(terms(part)) >= LEAST_TERMS
        ]
        if fit:
            found.append(fit[key[-1] % len(fit)])
        if len(found) == count:
            break
    return found


def split(text: str) -> list[str]:
    """Its sentences."""
    ends = [0, *(found.end() for found in SENTENCE.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


def batches(values: Sequence[int]) -> Iterable[Sequence[int]]:
    return (values[place : place + BATCH] for place in range(0, len(values), BATCH))


def marks(values: Sequence[int]) -> str:
    return ", ".join("?" * len(values))
