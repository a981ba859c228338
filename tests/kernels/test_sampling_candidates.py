"""Candidates against a sort in Python; logits beyond the vocabulary never count."""

from __future__ import annotations

import pytest
import torch

from kernels.sampling_candidates import best_candidates
from tests.kernels.candidate_rows import KINDS, check, row_of


@pytest.mark.parametrize("k", [1, 5, 40])
def test_the_best_come_first_and_of_equal_ones_the_lowest_ids(k: int) -> None:
    rows = [row_of(kind, 41, seed) for seed, kind in enumerate(KINDS)]
    padding = torch.full((len(rows), 7), torch.nan)
    logits = torch.cat([torch.stack(rows), padding], 1)
    check(best_candidates(logits, 41, k), rows, k)
    room = torch.empty(len(rows), k + 1, dtype=torch.int64)
    assert best_candidates(logits, 41, k, out=room) is room
    check(room, rows, k)
