"""A passage in its document, to be read by a person: what stands before it and after it.

The text comes from the index, never from a path: what no index holds cannot be opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from app.knowledge.passage import Passage

if TYPE_CHECKING:
    from app.knowledge.index import Index
    from app.knowledge.states import FileState
    from app.knowledge.stored import StoredChunk

AROUND = 20_000
"""Characters shown on either side of a passage; a screen does not scroll through a book."""

GONE = "The document is not in the knowledge base any more. This is the passage as it was read."
NOTES = "These are the model's notes on this part, not its words."
CHANGED = "The document has changed since. This is the passage as it was read."

PageStart = tuple[int, int]
"""A character of the document, and the number of the page that begins there."""


@dataclass(frozen=True, slots=True)
class SourceView:
    """What is shown of a document."""

    place: str
    passage: str
    before: str = ""
    after: str = ""
    cut_before: int = 0
    """Characters of the document that are not shown."""
    cut_after: int = 0
    hidden_characters: int = 0
    """Invisible characters that the document had."""
    notices: tuple[str, ...] = ()


def alone(passage: Passage, *notices: str) -> SourceView:
    """The passage where it cannot be shown in its document."""
    if passage.is_notes:
        notices = (NOTES, *notices)
    text = with_pages(passage.text, passage.start, passage.page_starts)
    has_header = not passage.header or text.startswith(passage.header)
    return SourceView(
        passage.place,
        text if has_header else f"{passage.header}\n{text}",
        hidden_characters=passage.hidden_characters,
        notices=notices,
    )


def in_document(passage: Passage, index: Index) -> SourceView:
    """The passage in its document, as the index holds it now."""
    if passage.is_notes:
        return alone(passage)
    chunks = chunks_of(passage.path, passage.name, index)
    if not chunks:
        return alone(passage, GONE)
    from app.knowledge.stored_chunks import joined

    text = joined(chunks)
    if not is_same(text[passage.start : passage.end], passage.text):
        return alone(passage, CHANGED)
    return around(passage, chunks, text)


def beginning(file: FileState, index: Index) -> SourceView:
    """A document from its start, no passage marked."""
    from app.knowledge.stored_chunks import joined

    chunks = chunks_of(file.path, file.name, index)
    start = Passage(
        file.path,
        file.name,
        "",
        0,
        0,
        hidden_characters=chunks[0].hidden_characters if chunks else 0,
    )
    return around(start, chunks, joined(chunks)) if chunks else alone(start, GONE)


def around(passage: Passage, chunks: Sequence[StoredChunk], text: str) -> SourceView:
    first, last = max(passage.start - AROUND, 0), min(passage.end + AROUND, len(text))
    pages = sorted({*page_starts(chunks), *passage.page_starts})

    def part(start: int, end: int) -> str:
        return with_pages(text[start:end], start, pages)

    return SourceView(
        place=passage.place,
        passage=part(passage.start, passage.end),
        before=part(first, passage.start),
        after=part(passage.end, last),
        cut_before=first,
        cut_after=len(text) - last,
        hidden_characters=chunks[0].hidden_characters,
    )


def chunks_of(path: Path, name: str, index: Index) -> list[StoredChunk]:
    """Of a file's document; nothing where the index has no such file."""
    for content_id in index.content_ids(name):
        chunks = index.document_chunks(content_id)
        if chunks and (chunks[0].path == path or name in (chunks[0].name, *chunks[0].other_names)):
            return chunks
    return []


def is_same(now: str, then: str) -> bool:
    """White space between chunks is not kept."""
    return now.split() == then.split()


def page_starts(chunks: Sequence[StoredChunk]) -> Iterable[PageStart]:
    """Where a page begins with a chunk."""
    if chunks and chunks[0].page is not None:
        yield chunks[0].start, chunks[0].page
    for previous, chunk in pairwise(chunks):
        if chunk.page is not None and chunk.page != (previous.last_page or previous.page):
            yield chunk.start, chunk.page


def with_pages(text: str, offset: int, starts: Iterable[PageStart]) -> str:
    """A line `— page 12 —` where a page begins in a text whose first character is `offset`."""
    parts: list[str] = []
    position = 0
    for start, page in starts:
        if offset <= start < offset + len(text):
            parts += [text[position : start - offset].rstrip("\n"), f"— page {page} —"]
            position = start - offset
    parts.append(text[position:].lstrip("\n") if parts else text)
    return "\n".join(part for part in parts if part)
