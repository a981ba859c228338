"""Rotation against complex numbers: a pair (a, b) at angle t is (a + ib) e^it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.rope import apply_rope


def angles(positions: Tensor, rotary: int) -> Tensor:
    inverse = 10_000.0 ** (-torch.arange(0, rotary, 2, dtype=torch.float64) / rotary)
    return positions.double().unsqueeze(1) * inverse


@pytest.mark.parametrize(("size", "rotary"), [(64, 64), (80, 32), (128, 128), (96, 96), (256, 64)])
def test_matches_complex_multiplication(size: int, rotary: int) -> None:
    positions = torch.tensor([0, 1, 5, 63, 64, 4095])
    turn = angles(positions, rotary)
    x = torch.randn(6, 3, size)
    half = rotary // 2
    pairs = torch.complex(x[..., :half].double(), x[..., half:rotary].double())
    turned = pairs * torch.polar(torch.ones_like(turn), turn).unsqueeze(1)
    wanted = torch.cat((turned.real, turned.imag, x[..., rotary:].double()), -1)
    found = apply_rope(x, turn.cos().float(), turn.sin().float())
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    assert torch.equal(found[..., rotary:], x[..., rotary:])
    assert torch.equal(found[0], x[0])


def test_products_depend_on_the_distance_only() -> None:
    q, k = torch.randn(1, 2, 64), torch.randn(1, 2, 64)
    products = []
    for start in (0, 7, 300):
        turn = angles(torch.tensor([start, start + 11]), 64).float()
        both = apply_rope(torch.cat((q, k)), turn.cos(), turn.sin())
        products.append((both[0] * both[1]).sum(-1))
    torch.testing.assert_close(products[1], products[0], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(products[2], products[0], rtol=1e-3, atol=1e-3)


def test_keeps_the_dtype_and_takes_no_rows() -> None:
    turn = angles(torch.arange(4), 16).float()
    x = torch.randn(4, 2, 16, dtype=torch.bfloat16)
    assert apply_rope(x, turn.cos(), turn.sin()).dtype == torch.bfloat16
    assert apply_rope(x[:0], turn.cos()[:0], turn.sin()[:0]).shape == (0, 2, 16)
