"""Which chunks may answer a query, and how well: by their words and by their meaning.

The two are added as scores, not as ranks: words count by the share of the query's weight that a
chunk covers, meaning by its cosine. Knows no documents, no budget and no threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from app.knowledge.words import TERM, is_cjk

if TYPE_CHECKING:
    from app.knowledge.embedder import Embedder, Floats
    from app.knowledge.row_table import RowTable
    from app.knowledge.stored import StoredChunk, WordHit
    from app.knowledge.vectors import Rows

LIMIT = 200
"""Candidates by words, and as many by meaning."""
WORD_WEIGHT = 0.75
"""Between .5 (better for paraphrases) and 1 (better for names)."""
BM25_LIMIT = 2.2
"""k1 + 1: a word's largest part in bm25, in units of its idf, in a chunk of average length."""
HIGH_BACKGROUND = 0.4
"""Some models' cosines all lie high (E5: .7 to .9): above this they are stretched to begin at 0."""
COMPLETE = 0.95
"""Meaning counts once this share of the chunks has a vector: others would lose unheard."""


class SearchIndex(Protocol):
    """What a search asks of an index."""

    def search_words(self, query: str, limit: int) -> list[WordHit]: ...
    def idf_sum(self, query: str) -> float: ...
    def idf(self, term: str) -> float: ...
    def chunk(self, ids: Sequence[int]) -> list[StoredChunk]: ...
    @property
    def chunk_count(self) -> int: ...
    def row_table(self) -> RowTable: ...


class VectorTable(Protocol):
    """What a search asks of the vectors."""

    def read(self, rows: Sequence[int]) -> Floats: ...
    def search(
        self, query: Floats, limit: int, used: Rows | None = None
    ) -> tuple[Rows, Floats]: ...


@dataclass(frozen=True, slots=True)
class Score:
    words: float = 0.0
    """Share of the query's weight that the chunk covers, about 0 to 1."""
    meaning: float | None = None
    """Cosine; None where meaning has no say."""

    @property
    def fused(self) -> float:
        return WORD_WEIGHT * self.words + (self.meaning or 0.0)

    @property
    def reason(self) -> str:
        said = f"words {self.words:.2f}"
        return said if self.meaning is None else f"{said} + meaning {self.meaning:.2f}"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The vectors and the model that made them, as far as they can judge a query."""

    vectors: VectorTable
    embedder: Embedder
    rows: RowTable
    background: float = 0.0
    """Mean cosine of unrelated texts, where it is high."""

    def cosines(self, query: str, others: Sequence[int]) -> dict[int, float]:
        """Of the nearest chunks, and of `others`."""
        vector = self.embedder.embed_query(query)
        places, found = self.vectors.search(vector, LIMIT, self.rows.used)
        cosines = {
            chunk_id: float(cosine)
            for row, cosine in zip(places, found, strict=True)
            for chunk_id in self.rows.chunks_of(int(row))
        }
        places_of = {each: self.rows.row_of(each) for each in others if each not in cosines}
        known = {each: row for each, row in places_of.items() if row is not None}
        further = self.vectors.read([*known.values()]) @ vector
        cosines.update(zip(known, map(float, further), strict=True))
        return {each: self._stretched(cosine) for each, cosine in cosines.items()}

    def _stretched(self, cosine: float) -> float:
        return (cosine - self.background) / (1.0 - self.background)


def meaning_for(
    index: SearchIndex,
    vectors: VectorTable | None,
    embedder: Embedder | None,
    query: str,
    background: float = 0.0,
) -> Meaning | None:
    """None where meaning can have no say: no model, a script that it was not trained on, or too few
    chunks with a vector.
    """
    if vectors is None or embedder is None:
        return None
    if not speaks(embedder, query):
        return None
    rows = index.row_table()
    if len(rows) < COMPLETE * index.chunk_count:
        return None
    return Meaning(vectors, embedder, rows, background if background > HIGH_BACKGROUND else 0.0)


def speaks(embedder: Embedder, text: str) -> bool:
    """Whether the model was trained on the text's script."""
    return embedder.speaks_cjk or is_latin(text)


def candidates(index: SearchIndex, meaning: Meaning | None, query: str) -> dict[int, Score]:
    """Scores by chunk id."""
    idf_sum = index.idf_sum(query)
    hits = index.search_words(query, LIMIT) if idf_sum else []
    scores = {hit.chunk_id: Score(hit.bm25 / (BM25_LIMIT * idf_sum)) for hit in hits}
    if meaning is not None:
        for chunk_id, cosine in meaning.cosines(query, list(scores)).items():
            scores[chunk_id] = replace(scores.get(chunk_id, Score()), meaning=cosine)
    return scores


def best_of(found: Sequence[Mapping[int, Score]]) -> dict[int, Score]:
    """Each chunk's best score of several queries."""
    best: dict[int, Score] = {}
    for scores in found:
        for chunk_id, score in scores.items():
            if chunk_id not in best or score.fused > best[chunk_id].fused:
                best[chunk_id] = score
    return best


def ranked(scores: Mapping[int, Score]) -> list[int]:
    """Chunk ids, best first; equal ones in the order of the index."""
    return sorted(scores, key=lambda chunk_id: (-scores[chunk_id].fused, chunk_id))


def is_latin(text: str) -> bool:
    """Whether a model of English can judge it: no part is Chinese, Japanese or Korean, and most
    letters are Latin. Digits and an empty text count as such.
    """
    if is_cjk(text):
        return False
    letters = [letter for word in TERM.findall(text) for letter in word if letter.isalpha()]
    latin = [each for each in letters if each < "\u0250" or "\u1e00" <= each < "\u1f00"]
    return 2 * len(latin) >= len(letters)
