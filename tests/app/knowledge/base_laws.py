"""What can be seen of a knowledge base from outside, to compare two of them."""

from __future__ import annotations

from typing import Any

from app.knowledge.base import KnowledgeBase
from app.knowledge.export import exported
from app.knowledge.vectors import Vectors

QUERIES = ("alpha", "beta gamma", "shared", "长城", "note")


def seen(base: KnowledgeBase) -> dict[str, Any]:
    """Everything but the numbers that a database counts with."""
    return {
        "files": [(file.name, file.state, file.size, file.chunks) for file in base.files()],
        "chunks": list(exported(base.index)),
        "words": {query: scored(base, query) for query in QUERIES},
        "vectors": vectors(base),
        "total": base.index.chunk_count,
    }


def scored(base: KnowledgeBase, query: str) -> list[tuple[str, int, float]]:
    hits = {hit.chunk_id: hit.bm25 for hit in base.index.search_words(query, 1000)}
    chunks = base.index.chunk(list(hits))
    assert len(chunks) == len(hits)
    return sorted((each.name, each.order, round(hits[each.id], 9)) for each in chunks)


def vectors(base: KnowledgeBase) -> dict[str, list[float]]:
    """By the text of the chunk."""
    used = base.index.vector_set
    if used is None:
        return {}
    slots = base.index.vector_slots()
    file = Vectors(base.index.vector_path(used), used.size)
    chunks = base.index.chunk(list(slots))
    return {each.text: file.read([slots[each.id]])[0].tolist() for each in chunks}


def found(base: KnowledgeBase, query: str) -> set[str]:
    """Names of the files that hold a word of the query."""
    hits = base.index.search_words(query, 1000)
    chunks = base.index.chunk([hit.chunk_id for hit in hits])
    return {name for chunk in chunks for name in (chunk.name, *chunk.other_names)}
