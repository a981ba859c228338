"""Candidates that the device chooses are those of a sort in Python, over pieces of any number."""

from __future__ import annotations

import pytest
import torch

from kernels.triton import sampling_candidates
from kernels.triton.sampling_candidates import best_candidates, most_candidates, scratch_for
from tests.kernels.candidate_rows import KINDS, check, row_of

PIECE = 16


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_candidates, "PIECE", PIECE)


@pytest.mark.parametrize(("size", "k"), [(5, 3), (16, 16), (17, 6), (45, 3)])
def test_the_best_of_all_pieces(size: int, k: int) -> None:
    rows = [row_of(kind, size, seed) for seed, kind in enumerate(KINDS)]
    padding = torch.full((len(rows), 3), torch.nan)
    check(best_candidates(torch.cat([torch.stack(rows), padding], 1), size, k), rows, k)


def test_room_can_be_used_again() -> None:
    scratch = scratch_for(2, 30, 4, torch.device("cpu"))
    out = torch.empty(2, 5, dtype=torch.int64)
    for seed in range(2):
        rows = [row_of("plain", 30, seed), row_of("equal", 30, seed)]
        best_candidates(torch.stack(rows), 30, 4, scratch, out)
        check(out, rows, 4)


def test_wide_vocabularies_have_room_for_usual_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_candidates, "PIECE", 4096)
    assert most_candidates(262_144) == 128
    assert most_candidates(151_936) == 128
    assert most_candidates(32_000) == 1024
