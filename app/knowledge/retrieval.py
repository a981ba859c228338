"""A question to passages: search, judge whether anything fits, choose what goes in.

The order of things stands in `retrieve`; each step is a file of its own. Knows no language model.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from app.knowledge.candidates import (
    COMPLETE,
    Meaning,
    Score,
    SearchIndex,
    VectorTable,
    best_of,
    candidates,
    is_latin,
    meaning_for,
    ranked,
)
from app.knowledge.gate import Thresholds, evidence, thresholds
from app.knowledge.passage import Retrieved
from app.knowledge.selection import NEAR, select
from app.knowledge.wholes import needs_all

if TYPE_CHECKING:
    from app.knowledge.embedder import Embedder

LOG = logging.getLogger("localchat.knowledge")
SHOWN = 100
"""Best chunks that passages are made of, and that are shown as found but unused."""
UNUSED = 20
QUESTION_CHARACTERS = 2_000
"""What is searched of a very long question."""
SEARCHED = "{passages} searched {how}."
REFUSED = "The documents say nothing about this: {passages} searched {how}."


class CalibratedIndex(SearchIndex, Protocol):
    """An index whose thresholds were measured, or will be."""

    @property
    def calibration(self) -> Mapping[str, Any] | None: ...


def retrieve(
    index: CalibratedIndex,
    vectors: VectorTable | None,
    embedder: Embedder | None,
    question: str,
    *,
    budget_characters: int = 8_000,
    also: Sequence[str] = (),
) -> Retrieved:
    """Passages for a question and for what else it may have meant (`also`), and whether they are
    near enough.

    A failing embedder costs the meaning only: the words are searched, and the reason says so.
    """
    limits = thresholds(index.calibration)
    queries = [searchable(text) for text in (question, *also) if text.strip()]
    searches = [search(index, vectors, embedder, query, limits) for query in queries]
    scores = best_of([each.scores for each in searches])
    chunks = index.chunk(ranked(scores)[:SHOWN])
    whole = needs_all(question)
    chosen = select(question, chunks, scores, budget_characters, 0.0 if whole else NEAR)
    how = in_words(searches, index, vectors)
    is_refused = not whole and not any(each.is_enough for each in searches)
    said = REFUSED if is_refused else SEARCHED
    return Retrieved(
        chosen.taken,
        chosen.unused[:UNUSED],
        is_refused,
        reason=said.format(passages=_were(index.chunk_count), how=how),
        needs_all=whole,
    )


def _were(chunks: int) -> str:
    return "1 passage was" if chunks == 1 else f"{chunks:,} passages were"


def searchable(text: str) -> str:
    """Halves of surrogate pairs, as undecodable input leaves them, say nothing."""
    return text[:QUESTION_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


class Search:
    """One query's result."""

    def __init__(
        self, scores: Mapping[int, Score], by_meaning: bool, evidence: float, least: float
    ) -> None:
        self.scores = scores
        self.by_meaning = by_meaning
        self.evidence = evidence
        self.is_enough = bool(scores) and evidence >= least


def search(
    index: SearchIndex,
    vectors: VectorTable | None,
    embedder: Embedder | None,
    query: str,
    limits: Thresholds,
) -> Search:
    meaning = meaning_for(index, vectors, embedder, query, limits.background)
    scores = judged(index, meaning, query)
    by_meaning = any(score.meaning is not None for score in scores.values())
    strength = evidence(index, query, scores, ranked(scores))
    return Search(scores, by_meaning, strength, limits.least(is_latin(query), by_meaning))


def judged(index: SearchIndex, meaning: Meaning | None, query: str) -> dict[int, Score]:
    """By words alone where the embedder fails."""
    from app.knowledge.embedder import EmbedderFailed

    try:
        return candidates(index, meaning, query)
    except EmbedderFailed as error:
        LOG.warning("searching by words only: %s", error)
        return candidates(index, None, query)


def in_words(searches: Sequence[Search], index: SearchIndex, vectors: VectorTable | None) -> str:
    if any(each.by_meaning for each in searches):
        return "by their words and their meaning"
    known = len(index.row_table()) if vectors is not None else 0
    if 0 < known < COMPLETE * index.chunk_count:
        return f"by their words; the meaning of {known:,} is known so far"
    return "by their words"
