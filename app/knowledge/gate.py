"""Whether what was found can answer a question at all: evidence against a calibrated threshold.

Evidence is the best chunk's score, how far it stands out from those behind it, and how much of the
question's weight stands in one chunk; where words alone speak, few of them count less, because
chance covers a large share of few words. Nothing is asked of a language model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.knowledge.candidates import Score, SearchIndex
from app.knowledge.words import folded, terms, weighted

BEHIND = 10
"""The chunks that the best one is compared with: off-topic questions find many alike."""
FOUND_WEIGHT = 0.3
LOOKED_AT = 10
"""Chunks whose text is searched for the question's words."""
LENGTH_POWER = 0.3
SUFFIX = 3
"""Letters at a word's end that inflection may change."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Least evidence for an answer, by what could judge the question."""

    latin_meaning: float = 0.9
    latin_words: float = 0.75
    other_meaning: float = 0.9
    other_words: float = 0.75
    background: float = 0.0
    """Mean cosine of unrelated texts under the embedder in use."""

    def least(self, latin: bool, by_meaning: bool) -> float:
        if latin:
            return self.latin_meaning if by_meaning else self.latin_words
        return self.other_meaning if by_meaning else self.other_words


def thresholds(calibration: Mapping[str, Any] | None) -> Thresholds:
    """Of the index, or the defaults where it has none that can be read."""
    known = Thresholds.__slots__
    values = {name: value for name, value in (calibration or {}).items() if name in known}
    if not all(isinstance(value, (int, float)) for value in values.values()):
        return Thresholds()
    return Thresholds(**values)


def evidence(
    index: SearchIndex, question: str, scores: Mapping[int, Score], ranking: Sequence[int]
) -> float:
    """Of a question and what was found for it; 0 for nothing."""
    if not ranking:
        return 0.0
    best = scores[ranking[0]].fused
    behind = sum(scores[each].fused for each in ranking[1 : BEHIND + 1]) / BEHIND
    found = FOUND_WEIGHT * found_share(index, question, ranking[:LOOKED_AT])
    by_meaning = scores[ranking[0]].meaning is not None
    length = 1.0 if by_meaning else max(len(terms(question)), 1) ** LENGTH_POWER
    return (2 * best - behind + found) * length


def found_share(index: SearchIndex, question: str, ids: Sequence[int]) -> float:
    """Largest share of the question's weight whose words stand in one of these chunks, 0 to 1."""
    weights: dict[str, float] = {}
    for word in weighted(terms(question)):
        weights[word] = weights.get(word, 0.0) + index.idf(word)
    total = sum(weights.values())
    if not total:
        return 0.0
    return max(
        (
            sum(weight for word, weight in weights.items() if stem(word) in text) / total
            for text in (folded(chunk.embed_text).lower() for chunk in index.chunk(ids))
        ),
        default=0.0,
    )


def stem(word: str) -> str:
    """The part of an English word that inflection leaves, roughly."""
    if not word.isascii() or not word.isalpha() or len(word) <= SUFFIX + 1:
        return word
    return word[: max(SUFFIX + 1, len(word) - SUFFIX)]
