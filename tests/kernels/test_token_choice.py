"""The choice of a token against a walk over lists in Python."""

from __future__ import annotations

import pytest
import torch

from kernels.sampling_candidates import best_candidates, unpacked
from kernels.token_choice import choose_tokens
from tests.kernels.choice_rows import drawn, equals


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


def test_a_walk_passes_borders_and_ends_with_the_last_token() -> None:
    case = equals()
    assert torch.equal(choose_tokens(case.packed, case.rules), case.wanted)


def test_a_walk_goes_by_ids() -> None:
    """The best token has the highest id: it comes last."""
    packed = best_candidates(torch.tensor([[0.0, 0.0, 1.0]]), 3, 3).expand(3, -1)
    rules = torch.tensor([[1, 3, 1, 0, number] for number in (0.0, 0.3, 0.6)]).double()
    assert choose_tokens(packed, rules).tolist() == [0, 1, 2]


def test_rules_that_are_no_numbers_still_choose_a_candidate() -> None:
    case = drawn(5, 40, 30, 8)
    rules = case.rules.clone()
    rules[torch.arange(40), torch.arange(40) % 5] = torch.nan
    chosen = choose_tokens(case.packed, rules)
    assert (chosen[:, None] == torch.from_numpy(unpacked(case.packed.numpy()).ids)).any(1).all()
