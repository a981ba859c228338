"""From the sums of a tile to stored results: joined with other shares', scaled, gated, added to."""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

from kernels.triton.shares import (
    is_last,
    joined,
    joined_squares,
    keep_share,
    keep_squares,
)
from kernels.triton.x_tiles import activated


@triton.jit
def store_rows(
    y, p_bias, p_residual, p_out, row, m_row, residual_step, out_step, tokens, ROWS: tl.constexpr
):  # fmt: skip
    """y [BN, ROWS] float32, as rows of the results."""
    t = tl.arange(0, ROWS)
    m = m_row[:, None] & (t < tokens)[None, :]
    if p_bias is not None:
        y += tl.load(p_bias + row, mask=m_row, other=0.0).to(tl.float32)[:, None]
    if p_residual is not None:
        p = p_residual + t[None, :].to(tl.int64) * residual_step + row[:, None]
        y += tl.load(p, mask=m, other=0.0).to(tl.float32)
    p = p_out + t[None, :].to(tl.int64) * out_step + row[:, None]
    tl.store(p, y.to(p_out.dtype.element_ty), mask=m)


@triton.jit
def store_results(
    acc, acc_up, squares, p_bias, p_residual, p_out, p_room, p_arrived,
    i_tile, i_share, row, m_row, residual_step, out_step, n, k, tokens, eps,
    BN: tl.constexpr, ROWS: tl.constexpr, KEPT: tl.constexpr, SHARES: tl.constexpr,
    IS_GATED: tl.constexpr, IS_SILU: tl.constexpr, HAS_NORM: tl.constexpr,
):  # fmt: skip
    """acc and acc_up [BN, ROWS] float32: products of this share; squares [ROWS]: of its columns.

    `KEPT`: rows that there is room for.
    """
    if SHARES > 1:
        # Of a share: sums, those of `up`, squares.
        STEP: tl.constexpr = (1 + IS_GATED) * BN * KEPT + KEPT
        p_tile = p_room + i_tile.to(tl.int64) * (SHARES * STEP)
        p_share = p_tile + i_share * STEP
        keep_share(p_share, acc, tokens, BN, ROWS)
        if IS_GATED:
            keep_share(p_share + BN * KEPT, acc_up, tokens, BN, ROWS)
        if HAS_NORM:
            keep_squares(p_share + (STEP - KEPT), squares, tokens, ROWS)
        if not is_last(p_arrived + i_tile, SHARES):
            return
        acc = joined(p_tile, STEP, tokens, SHARES, BN, ROWS)
        if IS_GATED:
            acc_up = joined(p_tile + BN * KEPT, STEP, tokens, SHARES, BN, ROWS)
        if HAS_NORM:
            squares = joined_squares(p_tile + (STEP - KEPT), STEP, tokens, SHARES, ROWS)
    if HAS_NORM:
        factor = tl.rsqrt(squares / k + eps)
        acc *= factor[None, :]
        if IS_GATED:
            acc_up *= factor[None, :]
    if IS_GATED:
        acc = activated(acc, acc_up, IS_SILU)
    store_rows(
        acc, p_bias, p_residual, p_out, row, m_row, residual_step, out_step, tokens, ROWS
    )  # fmt: skip
