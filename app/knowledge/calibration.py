"""Measures on an index what chance finds in it, so that a search knows what is less than an answer.

Off-topic questions show what chance finds: a multiple of their median evidence, because a few of
them may be on topic and the median does not mind. The threshold stands between that and what
answers have. The corpus' own sentences, thinned to half of their words, bound it: nearly all of
those must pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from app.knowledge.candidates import (
    HIGH_BACKGROUND,
    VectorTable,
    candidates,
    is_latin,
    meaning_for,
    ranked,
    speaks,
)
from app.knowledge.embedder import always
from app.knowledge.gate import evidence
from app.knowledge.probes import CHINESE, ENGLISH
from app.knowledge.retrieval import CalibratedIndex
from app.knowledge.root_reading import Stopped
from app.knowledge.words import terms

if TYPE_CHECKING:
    from app.knowledge.embedder import Embedder

FACTORS = {"latin": 1.75, "other": 2.1}
"""Threshold over median. Measured on halves, quarters and sixths of the articles of a question set:
about 95 % of the questions to the articles that were left out lie below.
"""
BOUNDS = {
    "latin_meaning": (0.6, 0.9),
    "latin_words": (0.45, 0.66),
    "other_meaning": (0.6, 0.95),
    "other_words": (0.5, 0.78),
}
"""A threshold lies between these. What chance finds grows with a collection, what answers have does
not: above the second more than 5 % of the questions that can be answered would be refused.
"""
PASSED_SHARE = 0.97
"""Of the thinned sentences."""
SENTENCES = 40
LEAST_SENTENCES = 10
PAIRS = 64
"""Sentences whose cosines with each other show how high unrelated ones lie."""


class Corpus(CalibratedIndex, Protocol):
    def random_sentences(self, count: int) -> list[str]: ...


def calibrate(
    index: Corpus,
    vectors: VectorTable | None,
    embedder: Embedder | None,
    is_wanted: Callable[[], bool] = always,
) -> dict[str, Any]:
    """The fields of `gate.Thresholds` that this index and embedder allow to measure. Some seconds
    of searching: `is_wanted` is asked again and again. Raises Stopped, EmbeddingEnded.
    """
    sentences = index.random_sentences(SENTENCES)
    background = 0.0
    if vectors is not None and embedder is not None:
        background = unrelated(embedder, sentences, is_wanted)

    def strengths(
        queries: Sequence[str], table: VectorTable | None, model: Embedder | None
    ) -> list[float]:
        return [
            strength(index, table, model, each, background)
            for each in while_wanted(queries, is_wanted)
        ]

    measured: dict[str, Any] = {"background": background}
    for script, probes in (("latin", ENGLISH), ("other", CHINESE)):
        own = [thinned(each) for each in sentences if is_latin(each) == (script == "latin")]
        for way, model in (("words", None), ("meaning", embedder)):
            table = vectors if model is not None else None
            if way == "meaning" and meaning_for(index, table, model, probes[0]) is None:
                continue
            off, on = strengths(probes, table, model), strengths(own, table, model)
            name = f"{script}_{way}"
            measured[name] = threshold(FACTORS[script] * median(off), on, *BOUNDS[name])
    return measured


def while_wanted(queries: Sequence[str], is_wanted: Callable[[], bool]) -> Iterator[str]:
    for query in queries:
        if not is_wanted():
            raise Stopped
        yield query


def strength(
    index: CalibratedIndex,
    vectors: VectorTable | None,
    embedder: Embedder | None,
    query: str,
    background: float,
) -> float:
    scores = candidates(index, meaning_for(index, vectors, embedder, query, background), query)
    return evidence(index, query, scores, ranked(scores))


def threshold(chance: float, on_topic: Sequence[float], least: float, most: float) -> float:
    """Between `chance` and `most`, at equal ratios; never above nearly all of what is on topic,
    where that is known.
    """
    between = math.sqrt(max(chance, 0.0) * most)
    if len(on_topic) >= LEAST_SENTENCES:
        between = min(between, quantile(on_topic, 1 - PASSED_SHARE))
    return min(max(between, least), most)


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between the two nearest."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def thinned(sentence: str) -> str:
    """Every other word: a question seldom repeats all words of its answer."""
    return " ".join(terms(sentence)[::2])


def unrelated(embedder: Embedder, sentences: Sequence[str], is_wanted: Callable[[], bool]) -> float:
    """Mean cosine of texts that have nothing to do with each other. Sentences of a corpus may all
    be alike: where their mean is high, that of the probes counts as well.
    """
    own = mean_cosine(embedder, sentences, is_wanted)
    if own <= HIGH_BACKGROUND:
        return own
    return min(own, mean_cosine(embedder, ENGLISH, is_wanted))


def mean_cosine(
    embedder: Embedder, sentences: Sequence[str], is_wanted: Callable[[], bool]
) -> float:
    """Of different sentences with each other, as far as the model was trained on their script."""
    known = [each for each in sentences if speaks(embedder, each)][:PAIRS]
    count = len(known)
    if count < 2:
        return 0.0
    vectors = embedder.embed_passages(known, is_wanted)
    return float(((vectors @ vectors.T).sum() - count) / (count * (count - 1)))
