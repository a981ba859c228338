"""How the keys of a sequence are shared out among programs, and how their results are merged.

The shares follow from the sequence's own length and window only, so that a row's result does not
depend on its neighbours. Borders lie on whole tiles of absolute positions.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.triton.paged_keys import UNSEEN
from kernels.triton.rotation import rotated


@dataclass(frozen=True, slots=True)
class Partial:
    """Results of each share: float32 [T, H, count, D], and log2 of its sum of weights
    [T, H, count].
    """

    out: Tensor
    weight: Tensor


def partial_results(q: Tensor, count: int) -> Partial:
    """Room for rows like q [T, H, D]; may be used again by later calls that need no more."""
    tokens, heads, size = q.shape
    out = torch.empty(tokens, heads, count, size, dtype=torch.float32, device=q.device)
    return Partial(out, torch.empty(tokens, heads, count, dtype=torch.float32, device=q.device))


def merge_warps(size: int) -> int:
    """Four hold the shares of 128 dims in about 110 registers a thread."""
    return 4 if size <= 128 else 8


@triton.jit
def keys_of_split(
    i_split, length, new,
    WINDOW: tl.constexpr, SPLITS: tl.constexpr, LEAST: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """First key that the oldest new token sees, then the share's first key and its end."""
    low = 0
    if WINDOW > 0:
        low = tl.maximum(length - new - WINDOW + 1, 0)
    begin = low // TILE * TILE
    share = tl.maximum(tl.cdiv(length - begin, SPLITS), LEAST)
    share = tl.cdiv(share, TILE) * TILE
    start = begin + i_split * share
    return low, start, tl.minimum(start + share, length)


@triton.jit(do_not_specialize_on_alignment=["p_first_row", "p_lengths"])
def merge_kernel(
    p_partial, p_weight, p_first_row, p_lengths, p_out,
    HEADS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr,
    WINDOW: tl.constexpr, SPLITS: tl.constexpr, LEAST: tl.constexpr, TILE: tl.constexpr,
    ROTATES_V: tl.constexpr,
):  # fmt: skip
    i_row, i_head, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = tl.load(p_first_row + i_b).to(tl.int32)
    new = tl.load(p_first_row + i_b + 1).to(tl.int32) - first
    if i_row >= new:
        return
    length = tl.load(p_lengths + i_b).to(tl.int32)
    row = (first + i_row).to(tl.int64) * HEADS + i_head
    i_split = tl.arange(0, SPLITS)
    _, start, end = keys_of_split(i_split, length, new, WINDOW, SPLITS, LEAST, TILE)
    m_split = start < end
    d = tl.arange(0, WIDTH)
    m = m_split[:, None] & (d < SIZE)[None, :]
    weight = tl.load(p_weight + row * SPLITS + i_split, mask=m_split, other=UNSEEN)
    p_rows = p_partial + row * (SPLITS * SIZE) + i_split[:, None] * SIZE + d[None, :]
    partial = tl.load(p_rows, mask=m, other=0.0)
    share = tl.where(m_split, tl.exp2(weight - tl.max(weight, 0)), 0.0)
    total = tl.sum(share, 0)
    # A padding row of length 0 has no share at all.
    out = tl.sum(partial * share[:, None], 0) / tl.where(total == 0, 1.0, total)
    if ROTATES_V:
        out = tl.reshape(rotated(tl.reshape(out, (1, WIDTH)), 1, WIDTH, SIZE), (WIDTH,))
    tl.store(p_out + row * SIZE + d, out.to(p_out.dtype.element_ty), mask=d < SIZE)
