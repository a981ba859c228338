"""The device's choice of a token is the one of a walk over lists in Python."""

from __future__ import annotations

import pytest
import torch

from kernels.sampling_candidates import unpacked
from kernels.triton.token_choice import MOST_CANDIDATES, can_run, choose_tokens
from tests.kernels.choice_rows import drawn, equals


@pytest.mark.parametrize(("size", "k"), [(41, 5), (90, 64), (9, 1), (7, 7)])
def test_tokens_are_those_of_a_walk(size: int, k: int) -> None:
    """Packed rows and rules lie in wider ones, full of what must not be read."""
    for seed in range(3):
        case = drawn(seed * 1000, 25, size, k)
        packed = torch.full((25, k + 4), -1)
        packed[:, : k + 1] = case.packed
        rules = torch.full((25, 8), torch.nan, dtype=torch.float64)
        rules[:, :5] = case.rules
        room = torch.full((27,), -1)
        out = room[1:26]
        assert choose_tokens(packed[:, : k + 1], rules[:, :5], out) is out
        assert out.tolist() == case.wanted.tolist()
        assert room[[0, 26]].tolist() == [-1, -1]


def test_a_walk_passes_borders_and_ends_with_the_last_token() -> None:
    case = equals()
    assert torch.equal(choose_tokens(case.packed, case.rules), case.wanted)


def test_rules_that_are_no_numbers_still_choose_a_candidate() -> None:
    case = drawn(5, 20, 30, 8)
    rules = case.rules.clone()
    rules[torch.arange(20), torch.arange(20) % 5] = torch.nan
    chosen = choose_tokens(case.packed, rules)
    assert (chosen[:, None] == torch.from_numpy(unpacked(case.packed.numpy()).ids)).any(1).all()


def test_no_rows_are_no_launch() -> None:
    case = drawn(0, 1, 9, 3)
    assert choose_tokens(case.packed[:0], case.rules[:0]).shape == (0,)


def test_what_has_no_kernel_has_a_reason() -> None:
    assert can_run(MOST_CANDIDATES, torch.float64) is None
    assert "65 candidates" in str(can_run(65, torch.float64))
    assert "float32" in str(can_run(64, torch.float32))
