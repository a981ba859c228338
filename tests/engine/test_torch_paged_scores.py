"""Candidates chosen on the device against a full sort on the host, ties and broken numbers too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.backends.torch_paged.scores import TensorScores


def scores_of(rows: list[list[float]]) -> TensorScores:
    return TensorScores(torch.tensor(rows), [range(i, i + 1) for i in range(len(rows))])


@pytest.mark.parametrize("k", [0, 1, 2, 3, 7, 12, 40, 99])
def test_candidates_are_the_best_and_of_equal_ones_the_lowest_ids(k: int) -> None:
    made = np.random.default_rng(k)
    rows = [[float(value) for value in made.integers(0, levels, 40)] for levels in (2, 3, 9, 500)]
    scores = scores_of(rows)
    for index, row in enumerate(rows):
        found = scores.candidates(index, k)
        order = sorted(range(40), key=lambda i, row=row: (-row[i], i))[:k]
        assert found.ids.tolist() == order
        assert found.logits.tolist() == [row[i] for i in order]
        assert found.ids.dtype == np.int64
        assert found.logits.dtype == np.float32
        assert found.finite
        wide = np.array(row, np.float64)
        assert found.log_sum_exp() == pytest.approx(float(np.log(np.exp(wide).sum())), rel=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_a_broken_row_is_told_and_spoils_no_other(bad: float, k: int) -> None:
    scores = scores_of([[1.0, bad, 2.0, -4.0], [1.0, 3.0, 2.0, -float("inf")]])
    assert not scores.candidates(0, k).finite
    assert scores.candidates(1, k).finite
    assert scores.candidates(1, k).ids.tolist() == [1, 2, 0][:k]


def test_a_row_without_any_finite_score_is_broken() -> None:
    assert not scores_of([[-float("inf")] * 4]).candidates(0, 2).finite


def test_rows_are_found_by_their_place() -> None:
    logits = torch.arange(12.0).view(4, 3)
    scores = TensorScores(logits, [range(0, 3), range(3, 3), range(3, 4)])
    assert scores.row(0, 1).tolist() == [3, 4, 5]
    assert scores.row(0).tolist() == scores.row(0, 2).tolist() == [6, 7, 8]
    assert scores.candidates(0, 1, 0).logits.tolist() == [2]
    assert scores.row(2).tolist() == [9, 10, 11]
    for index, place in ((1, -1), (0, 3), (2, 1)):
        with pytest.raises(ValueError, match="did not want"):
            scores.row(index, place)
