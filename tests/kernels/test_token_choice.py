"""The choice of a token against a walk over lists in Python."""

from __future__ import annotations

import pytest
import torch

from kernels.sampling_candidates import best_candidates
from kernels.token_choice import choose_tokens
from tests.kernels.choice_rows import drawn


@pytest.mark.parametrize(("size", "k"), [(41, 5), (90, 64), (9, 1), (7, 7)])
def test_tokens_are_those_of_a_walk(size: int, k: int) -> None:
    for seed in range(5):
        case = drawn(seed * 1000, 101, size, k)
        assert choose_tokens(case.packed, case.rules).tolist() == case.wanted.tolist()


def test_given_room_is_filled() -> None:
    case = drawn(3, 7, 30, 8)
    room = torch.full((7,), -1)
    assert choose_tokens(case.packed, case.rules, room) is room
    assert torch.equal(room, case.wanted)


def test_a_walk_by_id_not_by_rank() -> None:
    """Two equal tokens after the best one, which has the highest id."""
    packed = best_candidates(torch.tensor([[0.0, 0.0, 1.0]]), 3, 3).expand(4, -1)
    rules = torch.tensor([[1, 3, 1, 0, number] for number in (0.0, 0.3, 0.5, 0.9)]).double()
    assert choose_tokens(packed, rules).tolist() == [0, 1, 2, 2]
