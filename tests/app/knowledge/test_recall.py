"""Searches find, on a part of real question sets, what they are known to find on all of them.

The sets lie outside the repository: see `tests/bench/kb_data.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from app.knowledge.embedder import Embedder, installed_embedder
from tests.bench.kb_data import (
    QuestionSet,
    Ranking,
    base_of,
    data_folder,
    part,
    place_of,
    question_sets,
    ranking,
)

DATA = data_folder()
pytestmark = pytest.mark.skipif(DATA is None, reason="the question sets are not here")
LEFT_OUT = 40
"""Questions to articles that are not in the base."""


def asked(
    folder: Path, questions: QuestionSet, off_topic: QuestionSet, embedder: Embedder | None
) -> tuple[Ranking, float, float]:
    """Ranking, and the shares refused of what can be answered and of what cannot."""
    with base_of(folder, questions, embedder) as base:
        found = [base.query(question.text) for question in questions.questions]
        places = [
            place_of(retrieved, question.document)
            for retrieved, question in zip(found, questions.questions, strict=True)
        ]
        off = [base.query(question.text) for question in off_topic.questions[:LEFT_OUT]]
    refused = sum(retrieved.is_refused for retrieved in found) / len(found)
    return ranking(places), refused, sum(each.is_refused for each in off) / len(off)


def test_chinese_by_words_alone(tmp_path: Path) -> None:
    assert DATA is not None
    chinese = question_sets(DATA)[1]
    inside, outside = part(chinese, range(0, 48, 6)), part(chinese, range(1, 48, 6))
    score, refused, refused_off = asked(tmp_path / "base", inside, outside, None)
    assert score.recall_1 >= 0.93
    assert score.recall_5 >= 0.985
    assert refused <= 0.06
    assert refused_off >= 0.85


@pytest.mark.model
def test_english_by_words_and_meaning(tmp_path: Path) -> None:
    assert DATA is not None
    english = question_sets(DATA)[0]
    inside, outside = part(english, range(0, 48, 6)), part(english, range(1, 48, 6))
    embedder = installed_embedder()
    assert embedder is not None
    try:
        score, refused, refused_off = asked(tmp_path / "base", inside, outside, embedder)
    finally:
        embedder.close()
    assert score.recall_1 >= 0.93
    assert score.recall_5 >= 0.99
    assert refused <= 0.05
    assert refused_off >= 0.9
