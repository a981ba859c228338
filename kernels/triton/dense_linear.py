"""A few rows through a dense weight, or through two for a gated network, as in `packed_linear.py`.

Bound by the memory: small tiles of rows, several in flight.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

from kernels.triton.results import store_results
from kernels.triton.shares import steps_of_share
from kernels.triton.x_tiles import load_x


@triton.jit(do_not_specialize=["tokens", "repeats", "eps", "offset"])
def dense_linear_kernel(
    p_x, p_norm, p_w, p_w_up, p_experts, p_bias, p_residual, p_out, p_room, p_arrived,
    x_step, residual_step, out_step, matrix_step, w_step,
    n, k, tokens, repeats, eps, offset,
    IS_SILU: tl.constexpr, ROWS: tl.constexpr, KEPT: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, SHARES: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Steps are elements: between rows, and of the weight between matrices and rows."""
    IS_GATED: tl.constexpr = p_w_up is not None
    HAS_NORM: tl.constexpr = p_norm is not None
    # Programs of other rows come next: they find the weight in the cache.
    i_row, i_n, i_share = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_tile = i_row * tl.num_programs(1) + i_n
    if p_experts is not None:
        skipped = tl.load(p_experts + i_row).to(tl.int64) * matrix_step
        p_w += skipped
        if IS_GATED:
            p_w_up += skipped
        row_of_x, row_of_out = (i_row // repeats).to(tl.int64), i_row.to(tl.int64)
    else:
        row_of_x, row_of_out = i_row.to(tl.int64) * ROWS, i_row.to(tl.int64) * ROWS
        tokens -= i_row * ROWS
    p_x += row_of_x * x_step
    p_out += row_of_out * out_step
    if p_residual is not None:
        p_residual += row_of_out * residual_step
    row = i_n.to(tl.int64) * BN + tl.arange(0, BN)
    m_row = row < n
    at = row * w_step
    acc = tl.zeros((BN, ROWS), tl.float32)
    acc_up = tl.zeros((BN, ROWS), tl.float32)
    squares = tl.zeros((BK, ROWS), tl.float32)
    first, stop = steps_of_share(i_share, tl.cdiv(k, BK), SHARES)
    for i in tl.range(first, stop, num_stages=STAGES):
        c = i * BK + tl.arange(0, BK)
        m = m_row[:, None] if EVEN else m_row[:, None] & (c < k)[None, :]
        w = tl.load(p_w + at[:, None] + c[None, :], mask=m, other=0.0)
        if IS_GATED:
            w_up = tl.load(p_w_up + at[:, None] + c[None, :], mask=m, other=0.0)
        x, squares = load_x(p_x, p_norm, squares, i * BK, x_step, tokens, k, offset,
                            BK, ROWS, HAS_NORM, EVEN)  # fmt: skip
        acc = tl.dot(w, x, acc)
        if IS_GATED:
            acc_up = tl.dot(w_up, x, acc_up)
    store_results(
        acc, acc_up, tl.sum(squares, 0), p_bias, p_residual, p_out, p_room, p_arrived,
        i_tile, i_share, row, m_row, residual_step, out_step, n, k, tokens, eps,
        BN, ROWS, KEPT, SHARES, IS_GATED, IS_SILU, HAS_NORM,
    )  # fmt: skip
