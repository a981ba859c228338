"""Candidates against a full sort, and the log-sum-exp against double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.llama_cpp.scores import ArrayScores, best_ids, log_sum_exp

few_values = st.lists(
    st.sampled_from([-math.inf, -2.0, 0.0, -0.0, 1.5, 3.0]), min_size=1, max_size=40
)


@given(few_values, st.integers(0, 50))
def test_candidates_are_the_head_of_a_full_sort_lower_id_first(values: list[float], k: int) -> None:
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))[:k]
    assert best_ids(np.array(values, np.float32), k).tolist() == expected


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(0, 9))
def test_candidates_of_wide_rows(size: int, k: int, seed: int) -> None:
    logits = np.random.default_rng(seed).standard_normal(size).astype(np.float32)
    expected = np.argsort(-logits, kind="stable")[:k]
    assert np.array_equal(best_ids(logits, k), expected)


def test_log_sum_exp_is_that_of_double_precision() -> None:
    logits = (9 * np.random.default_rng(1).standard_normal(49_152)).astype(np.float32)
    wide = logits.astype(np.float64)
    expected = wide.max() + np.log(np.exp(wide - wide.max()).sum())
    assert log_sum_exp(logits) == pytest.approx(expected, abs=1e-5)
    assert math.isfinite(log_sum_exp(np.array([-math.inf, 2.0], np.float32)))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_with_a_bad_number_is_seen_in_its_sum(bad: float) -> None:
    scores = ArrayScores()
    scores.put(3, [np.array([1.0, bad, 0.0], np.float32)])
    for k in (1, 2):
        candidates = scores.candidates(3, k)
        assert not candidates.finite
        assert not math.isfinite(candidates.log_sum_exp())
        assert len(candidates.ids) == k
    with pytest.raises(ValueError, match="row 0"):
        scores.row(0)
