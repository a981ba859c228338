"""Rows of the embedding, of dense tables and packed ones."""

from __future__ import annotations

import pytest
import torch

from kernels.embedding import embed
from kernels.linear import Weight
from tests.kernels import packed_weights

DENSE = torch.randn(40, 64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", ["dense", "Q8_0"])
def test_negative_tokens_stand_for_chosen_ones(kind: str) -> None:
    table: Weight = DENSE if kind == "dense" else packed_weights.planes(kind, 40, 64)
    chosen, tokens = torch.tensor([7, 2**40, 39]), torch.tensor([3, -1, -3, -1, 0])
    wanted = embed(torch.tensor([3, 7, 39, 7, 0]), table, 2.0, torch.bfloat16)
    room = torch.full((5, 64), torch.nan, dtype=torch.bfloat16)
    assert embed(tokens, table, 2.0, torch.bfloat16, room, chosen) is room
    assert torch.equal(room, wanted)


def test_without_negative_tokens_nothing_chosen_counts() -> None:
    tokens = torch.tensor([5, 0])
    found = embed(tokens, DENSE, 1.0, torch.float32, chosen=torch.tensor([2**40]))
    assert torch.equal(found, DENSE[tokens])
