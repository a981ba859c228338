"""From ranked chunks to passages within a budget: alike ones once, a document's share limited,
neighbours preferred and joined. Knows no way to search.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from app.knowledge.candidates import Score
from app.knowledge.chunking import best_border
from app.knowledge.passage import Passage, joined
from app.knowledge.stored import StoredChunk
from app.knowledge.words import folded

SHARE = 4
"""Chunks of one document that are taken as they come; further ones make way."""
FURTHER = 0.8
"""A further chunk counts this much of its score against chunks of other documents."""
BESIDE = 0.3
"""Share of their scores that the chunks before and after one add to its own: an answer goes on over
a border. Found: 0.2 to 0.4 bring equally much of it.
"""
CRUMB = 100
"""A chunk is not cut to fewer characters."""
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
    least *= max((scores[chunk.id].fused for chunk in different), default=0.0)
    close = [chunk for chunk in different if scores[chunk.id].fused >= least]
    far = [chunk for chunk in different if scores[chunk.id].fused < least]
    taken, cut, rest = fill(shared_out(question, close, scores), budget)
    used = taken if cut is None else [*taken, cut]
    documents = {chunk.content_id: place for place, chunk in reversed(list(enumerate(used)))}
    by_place = sorted(used, key=lambda each: (documents[each.content_id], each.order))
    return Selection(
        tuple(passage(run, scores, names) for run in neighbours(by_place, cut)),
        tuple(passage([chunk], scores, names) for chunk in (*rest, *far)),
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
    """The best, then by worth, where chunks beyond a document's share count less, unless it is
    asked for. `chunks` best first.
    """
    values = worth(chunks, scores)
    for chunk in chunks[:1]:
        values[chunk.id] = math.inf
    seen: dict[int, int] = {}
    for chunk in sorted(chunks, key=lambda chunk: -values[chunk.id]):
        seen[chunk.content_id] = seen.get(chunk.content_id, 0) + 1
        if seen[chunk.content_id] > SHARE and not is_named(question, chunk):
            values[chunk.id] *= FURTHER
    return sorted(chunks, key=lambda chunk: -values[chunk.id])


def worth(chunks: Sequence[StoredChunk], scores: Mapping[int, Score]) -> dict[int, float]:
    """By chunk id its score with a part of its neighbours'; its own stands for one that is not
    among `chunks`, so that a short document loses nothing.
    """
    found = {(chunk.content_id, chunk.order): scores[chunk.id].fused for chunk in chunks}
    values: dict[int, float] = {}
    for chunk in chunks:
        own = scores[chunk.id].fused
        around = (found.get((chunk.content_id, chunk.order + step), own) for step in (-1, 1))
        values[chunk.id] = own + BESIDE * sum(around)
    return values


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


def fill(
    chunks: Sequence[StoredChunk], budget: int
) -> tuple[list[StoredChunk], StoredChunk | None, list[StoredChunk]]:
    """(taken, cut, left): those that go in whole, and the beginning of the first that does not.
    The first is always taken.
    """
    used = 0
    for place, chunk in enumerate(chunks):
        room = budget - used - len(chunk.header)
        if place and len(chunk.text) > room:
            cut = beginning(chunk, room) if room >= CRUMB else None
            return [*chunks[:place]], cut, [*chunks[place + (cut is not None) :]]
        used += len(chunk.header) + len(chunk.text)
    return [*chunks], None, []


def beginning(chunk: StoredChunk, length: int) -> StoredChunk:
    """At most `length` characters, up to the best border in the second half of them."""
    text = chunk.text[: best_border(chunk.text, length // 2, length)].rstrip()
    first = chunk.first_line
    last = None if first is None else first + text.count("\n")
    return replace(chunk, text=text, end=chunk.start + len(text), last_line=last)


def neighbours(
    chunks: Sequence[StoredChunk], cut: StoredChunk | None = None
) -> list[list[StoredChunk]]:
    """Runs of chunks that follow each other in one document; nothing follows one that was cut."""
    runs: list[list[StoredChunk]] = []
    for chunk in chunks:
        last = runs[-1][-1] if runs else None
        if last is not None and last is not cut and follows(last, chunk):
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
