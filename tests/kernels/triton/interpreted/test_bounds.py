"""The bounds checker: what lies outside of every tensor of a launch is found."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def shift_kernel(x, y, start, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + start + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def flip_kernel(x, start, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_xor(x + start + i, 1, mask=i < n)


def test_lanes_inside_and_masked_lanes_are_fine() -> None:
    x, y = torch.arange(10.0), torch.full((6,), torch.nan)
    shift_kernel[(1,)](x, y, 4, 6, N=16)
    assert torch.equal(y, x[4:])


@pytest.mark.parametrize(("start", "n"), [(5, 6), (-1, 6), (0, 7)])
def test_a_lane_outside_is_found(start: int, n: int) -> None:
    x, y = torch.arange(10.0), torch.full((6,), torch.nan)
    with pytest.raises(Exception, match="lanes outside every tensor"):
        shift_kernel[(1,)](x, y, start, n, N=16)


def test_atomic_operations_are_checked() -> None:
    x = torch.zeros(8, dtype=torch.int32)
    flip_kernel[(1,)](x, 0, 8, N=8)
    assert x.sum() == 8
    with pytest.raises(Exception, match="lanes outside every tensor"):
        flip_kernel[(1,)](x, 1, 8, N=8)
