"""A collection that is small enough to be read whole: every question to it has the same documents
before it, byte for byte, so that a model reads them once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.knowledge.passage import Passage
from app.knowledge.prompt import shown
from app.knowledge.sources import Sources
from app.knowledge.stored import StoredChunk

if TYPE_CHECKING:
    from app.knowledge.base import KnowledgeBase

MOST_TOKENS = 4096
"""Up to here text is given whole; above it is searched."""
MOST_CHARACTERS = 8 * MOST_TOKENS
"""No 4,096 tokens are longer: larger collections are not looked at."""


def passages(base: KnowledgeBase) -> tuple[Passage, ...] | None:
    """All of a small base, ordered by the documents' names; None where it is larger."""
    documents = []
    characters = 0
    for content_id in base.index.content_ids():
        chunks = base.index.document_chunks(content_id)
        characters += sum(len(chunk.text) for chunk in chunks)
        if characters > MOST_CHARACTERS:
            return None
        if chunks:
            documents.append(chunks)
    documents.sort(key=lambda chunks: (chunks[0].name, chunks[0].text))
    return tuple(passage for chunks in documents for passage in as_passages(chunks))


def as_passages(chunks: list[StoredChunk]) -> Iterator[Passage]:
    for chunk in chunks:
        yield Passage(
            path=chunk.path,
            name=chunk.name,
            text=chunk.text,
            start=chunk.start,
            end=chunk.end,
            headings=chunk.headings,
            page=chunk.page,
            last_page=chunk.last_page,
            first_line=chunk.first_line,
            last_line=chunk.last_line,
            header=chunk.header,
            reason="the whole collection",
            other_names=chunk.other_names,
            hidden_characters=chunk.hidden_characters,
        )


def whole(name: str, all_passages: tuple[Passage, ...], secret: str) -> Sources:
    """Sources that are the same for each question. Their mark follows from the content and from
    `secret`, which no author of a document knows.
    """
    digest = hashlib.blake2b(key=secret.encode()[:64])
    for passage in all_passages:
        digest.update(shown(passage).encode("utf-8", "surrogatepass") + b"\0")
    content = digest.hexdigest()
    return Sources(name, content[-8:], all_passages, collection=content[:32])
