"""The question sets that searches are measured on, and how they are scored.

They lie outside the repository: `../shared/data/kb` beside it, or where LOCALCHAT_KB_DATA says.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.knowledge.base import KnowledgeBase
from app.knowledge.embedder import Embedder
from app.knowledge.passage import Passage, Retrieved

if TYPE_CHECKING:
    from app.knowledge.embedder import Floats

CUTOFF = 10
BUDGETS = (4_000, 8_000)


def data_folder() -> Path | None:
    """None where there is none."""
    beside = Path(__file__).resolve().parents[3] / "shared/data/kb"
    folder = Path(os.environ.get("LOCALCHAT_KB_DATA") or beside)
    return folder if folder.is_dir() else None


@dataclass(frozen=True)
class Text:
    id: str
    text: str
    article: int
    """Texts of one article are about one topic; -1 where the set has none."""


@dataclass(frozen=True)
class Question:
    text: str
    document: str
    """Id of the one text that answers it."""
    article: int = -1


@dataclass(frozen=True)
class QuestionSet:
    name: str
    texts: tuple[Text, ...]
    questions: tuple[Question, ...]


def question_set(folder: Path, name: str, texts: str, questions: str) -> QuestionSet:
    return QuestionSet(
        name,
        tuple(Text(d["id"], d["text"], d.get("article", -1)) for d in lines(folder / texts)),
        tuple(Question(q["q"], q["doc"], q.get("article", -1)) for q in lines(folder / questions)),
    )


def question_sets(folder: Path) -> tuple[QuestionSet, QuestionSet, QuestionSet]:
    """English, Chinese, and Chinese of another source."""
    return (
        question_set(folder, "xquad-en", "xquad/en.docs.jsonl", "xquad/en.queries.jsonl"),
        question_set(folder, "xquad-zh", "xquad/zh.docs.jsonl", "xquad/zh.queries.jsonl"),
        question_set(folder, "cmrc", "cmrc/dev.docs.jsonl", "cmrc/dev.queries.jsonl"),
    )


def mixed(sets: Iterable[QuestionSet]) -> QuestionSet:
    """All texts in one; questions of set S get `S/` in front of their document's id."""
    sets = tuple(sets)
    return QuestionSet(
        "mixed",
        tuple(Text(f"{s.name}/{t.id}", t.text, -1) for s in sets for t in s.texts),
        tuple(Question(q.text, f"{s.name}/{q.document}") for s in sets for q in s.questions),
    )


def part(questions: QuestionSet, articles: Iterable[int]) -> QuestionSet:
    """The texts and questions of these articles."""
    kept = frozenset(articles)
    return QuestionSet(
        questions.name,
        tuple(text for text in questions.texts if text.article in kept),
        tuple(question for question in questions.questions if question.article in kept),
    )


def lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def built(folder: Path, texts: Mapping[str, str], embedder: Embedder | None) -> KnowledgeBase:
    """A base of these texts in an empty folder, embedded and calibrated."""
    base = KnowledgeBase.temporary(folder, texts, embedder)
    base.sync()
    return base


def base_of(folder: Path, questions: QuestionSet, embedder: Embedder | None) -> KnowledgeBase:
    return built(folder, {f"{text.id}.txt": text.text for text in questions.texts}, embedder)


# ---- scores


@dataclass(frozen=True)
class Ranking:
    recall_1: float
    recall_5: float
    ndcg_10: float


def ranking(places: Sequence[int | None]) -> Ranking:
    """`places`: where the right document stood, from 0; None where it was not found."""
    found = [place if place is not None and place < CUTOFF else CUTOFF for place in places]
    return Ranking(
        sum(place < 1 for place in found) / len(found),
        sum(place < 5 for place in found) / len(found),
        sum(1 / math.log2(place + 2) for place in found if place < CUTOFF) / len(found),
    )


def place_of(retrieved: Retrieved, document: str) -> int | None:
    """Among the documents in the order of their best passages, used or not."""
    passages = sorted(every(retrieved), key=lambda passage: -passage.score)
    names = list(dict.fromkeys(passage.name for passage in passages))
    name = f"{document}.txt"
    return names.index(name) if name in names else None


def every(retrieved: Retrieved) -> tuple[Passage, ...]:
    return (*retrieved.passages, *retrieved.unused)


def evidence_share(
    passages: Sequence[Passage], name: str, spans: Sequence[tuple[int, int]]
) -> float:
    """Share of the characters of `spans` of the document `name` that the passages hold."""
    need = got = 0
    for start, end in spans:
        need += end - start
        edge = start
        for a, b in sorted((p.start, p.end) for p in passages if p.name == name):
            a, b = max(a, edge), min(b, end)
            if b > a:
                got += b - a
                edge = b
    return got / need


class Remembering:
    """An embedder that embeds each text once, for several bases of the same texts."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Floats] = {}
        self.fingerprint = embedder.fingerprint
        self.size = embedder.size
        self.speaks_cjk = embedder.speaks_cjk

    def embed_passages(self, texts: Sequence[str], is_wanted: object = None) -> Floats:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._embedder.embed_passages(new), strict=True))
        return np.stack([self._known[text] for text in texts])

    def embed_query(self, text: str) -> Floats:
        if text not in self._known:
            self._known[text] = self._embedder.embed_query(text)
        return self._known[text]

    def pause(self) -> None:
        self._embedder.pause()

    def resume(self) -> None:
        self._embedder.resume()

    def wait(self, is_wanted: Callable[[], bool]) -> bool:
        return self._embedder.wait(is_wanted)

    def close(self) -> None:
        self._embedder.close()
