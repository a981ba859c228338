"""From ranked chunks to passages within a budget: alike ones once, a document's share limited,
neighbours joined. Knows no scores but their order and no way to search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.knowledge.candidates import Score
from app.knowledge.passage import Passage, joined
from app.knowledge.stored import StoredChunk
from app.knowledge.words import folded

SHARE = 4
"""Chunks of one document that are taken as they come; further ones make way."""
FURTHER = 0.8
"""A further chunk counts this much of its score against chunks of other documents."""
NEAR = 0.15
"""Share of the best score below which a chunk is left, whatever room there is: it holds what all
hold. Found: up to 0.2 no evidence is lost.
"""
LEAST_NAME = 4
"""Characters of a file's name that say that a question means this file; two in Chinese."""


@dataclass(frozen=True, slots=True)
class Selection:
    taken: tuple[Passage, ...]
    unused: tuple[Passage, ...]


def select(
    question: str,
    chunks: Sequence[StoredChunk],
    scores: Mapping[int, Score],
    budget: int,
    least: float = NEAR,
) -> Selection:
    """`chunks` best first; `budget` in characters of text; `least` as share of the best score. The
    best document comes first, and a document's passages in the order of its text.
    """
    different, names = without_copies(chunks)
    order = shared_out(question, different, scores)
    count = near(order, scores, least)
    taken, rest = fill(order[:count], budget)
    rest += order[count:]
    documents = {chunk.content_id: place for place, chunk in reversed(list(enumerate(taken)))}
    by_place = sorted(taken, key=lambda each: (documents[each.content_id], each.order))
    return Selection(
        tuple(passage(run, scores, names) for run in neighbours(by_place)),
        tuple(passage([chunk], scores, names) for chunk in rest),
    )


def without_copies(
    chunks: Iterable[StoredChunk],
) -> tuple[list[StoredChunk], dict[int, tuple[str, ...]]]:
    """Each text once, of the newest file that holds it; by chunk id the names of the others."""
    alike: dict[str, list[StoredChunk]] = {}
    for chunk in chunks:
        alike.setdefault(" ".join(chunk.text.split()), []).append(chunk)
    kept: list[StoredChunk] = []
    names: dict[int, tuple[str, ...]] = {}
    for copies in alike.values():
        copies.sort(key=lambda copy: -copy.modified_ns)
        newest = copies[0]
        others = [name for copy in copies for name in (copy.name, *copy.other_names)]
        names[newest.id] = tuple(name for name in dict.fromkeys(others) if name != newest.name)
        kept.append(newest)
    return kept, names


def shared_out(
    question: str, chunks: Sequence[StoredChunk], scores: Mapping[int, Score]
) -> list[StoredChunk]:
    """Best first, where chunks beyond a document's share count less, unless it is asked for."""
    seen: dict[int, int] = {}
    values: dict[int, float] = {}
    for chunk in chunks:
        seen[chunk.content_id] = seen.get(chunk.content_id, 0) + 1
        further = seen[chunk.content_id] > SHARE and not is_named(question, chunk)
        values[chunk.id] = scores[chunk.id].fused * (FURTHER if further else 1.0)
    return sorted(chunks, key=lambda chunk: -values[chunk.id])


def is_named(question: str, chunk: StoredChunk) -> bool:
    """Whether the question names the chunk's file, with or without its ending."""
    asked = spaced(question)
    for name in (chunk.name, *chunk.other_names):
        stem = spaced(name.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0])
        least = LEAST_NAME if stem.isascii() else LEAST_NAME // 2
        if len(stem) >= least and f" {stem} " in f" {asked} ":
            return True
        if not stem.isascii() and len(stem) >= least and stem in asked:
            return True
    return False


def spaced(text: str) -> str:
    """Its words in small letters with single spaces between them."""
    kept = (letter if letter.isalnum() else " " for letter in folded(text).casefold())
    return " ".join("".join(kept).split())


def near(chunks: Sequence[StoredChunk], scores: Mapping[int, Score], least: float) -> int:
    """How many chunks at the front have at least this share of the best score."""
    best = max((scores[chunk.id].fused for chunk in chunks), default=0.0)
    far = (place for place, chunk in enumerate(chunks) if scores[chunk.id].fused < least * best)
    return next(far, len(chunks))


def fill(chunks: Sequence[StoredChunk], budget: int) -> tuple[list[StoredChunk], list[StoredChunk]]:
    """(taken, left): the best that go in together; what is too long for the rest is passed over.
    The first is always taken.
    """
    taken: list[StoredChunk] = []
    left: list[StoredChunk] = []
    used = 0
    for chunk in chunks:
        length = len(chunk.header) + len(chunk.text)
        if taken and used + length > budget:
            left.append(chunk)
        else:
            taken.append(chunk)
            used += length
    return taken, left


def neighbours(chunks: Sequence[StoredChunk]) -> list[list[StoredChunk]]:
    """Runs of chunks that follow each other in one document."""
    runs: list[list[StoredChunk]] = []
    for chunk in chunks:
        last = runs[-1][-1] if runs else None
        if last is not None and follows(last, chunk):
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return runs


def follows(last: StoredChunk, chunk: StoredChunk) -> bool:
    """Whether one passage can hold both: under one heading, so that the place stays true."""
    return (
        last.content_id == chunk.content_id
        and last.order + 1 == chunk.order
        and last.headings == chunk.headings
        and last.header == chunk.header
    )


def passage(
    run: Sequence[StoredChunk], scores: Mapping[int, Score], names: Mapping[int, tuple[str, ...]]
) -> Passage:
    """One passage of chunks that follow each other; its score is the best chunk's."""
    first, last = run[0], run[-1]
    best = max((scores[chunk.id] for chunk in run), key=lambda score: score.fused)
    return Passage(
        path=first.path,
        name=first.name,
        text=joined(run),
        start=first.start,
        end=last.end,
        headings=first.headings,
        page=first.page,
        last_page=last.last_page,
        first_line=first.first_line,
        last_line=last.last_line,
        header=first.header,
        score=best.fused,
        reason=best.reason,
        other_names=names.get(first.id, first.other_names),
        hidden_characters=first.hidden_characters,
        page_starts=page_starts(run),
    )


def page_starts(run: Sequence[StoredChunk]) -> tuple[tuple[int, int], ...]:
    """Where each page begins after the first chunk."""
    pages = pairwise(run)
    return tuple(
        (chunk.start, chunk.page)
        for before, chunk in pages
        if chunk.page is not None and chunk.page != before.last_page
    )
