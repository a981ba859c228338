"""As `packed_linear.py`, of a weight whose upper and lower rows are packed as different types.

A program does rows of one of them, so that the loops are those of the two types alone.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

from kernels.triton.packed_linear import packed_rows


@triton.jit(do_not_specialize=["tokens", "eps", "offset"])
def mixed_linear_kernel(
    p_x, p_norm, p_bias, p_residual, p_out, p_room, p_arrived, x_step, residual_step, out_step,
    p_words, high_at, scales_at, mins_at, supers_at, values_at, n,
    p_words_below, high_at_below, scales_at_below, mins_at_below, supers_at_below, values_at_below,
    n_below,
    k, tokens, eps, offset,
    CODES: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, GROUP: tl.constexpr,
    LIFT: tl.constexpr, SCALES: tl.constexpr, HAS_MINS: tl.constexpr, HAS_SUPERS: tl.constexpr,
    CODES_BELOW: tl.constexpr, LOW_BELOW: tl.constexpr, HIGH_BELOW: tl.constexpr,
    GROUP_BELOW: tl.constexpr, LIFT_BELOW: tl.constexpr, SCALES_BELOW: tl.constexpr,
    HAS_MINS_BELOW: tl.constexpr, HAS_SUPERS_BELOW: tl.constexpr,
    ROWS: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SHARES: tl.constexpr,
    EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """`*_below`, `*_BELOW`: of the lower rows."""
    i_row, i_n, i_share = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_tile = i_row * tl.num_programs(1) + i_n
    tokens -= i_row * ROWS
    row_of_out = i_row.to(tl.int64) * ROWS
    p_x += row_of_out * x_step
    p_out += row_of_out * out_step
    if p_residual is not None:
        p_residual += row_of_out * residual_step
    i_below = i_n - tl.cdiv(n, BN)
    if i_below < 0:
        packed_rows(
            p_x, p_norm, p_words, None, p_bias, p_residual, p_out, p_room, p_arrived,
            x_step, residual_step, out_step, high_at, scales_at, mins_at, supers_at, values_at,
            i_n, i_tile, i_share, n, k, tokens, eps, offset,
            CODES, LOW, HIGH, GROUP, LIFT, SCALES, HAS_MINS, HAS_SUPERS,
            True, ROWS, ROWS, BN, BK, SHARES, EVEN, STAGES,
        )  # fmt: skip
    else:
        if p_bias is not None:
            p_bias += n
        if p_residual is not None:
            p_residual += n
        packed_rows(
            p_x, p_norm, p_words_below, None, p_bias, p_residual, p_out + n, p_room, p_arrived,
            x_step, residual_step, out_step,
            high_at_below, scales_at_below, mins_at_below, supers_at_below, values_at_below,
            i_below, i_tile, i_share, n_below, k, tokens, eps, offset,
            CODES_BELOW, LOW_BELOW, HIGH_BELOW, GROUP_BELOW, LIFT_BELOW, SCALES_BELOW,
            HAS_MINS_BELOW, HAS_SUPERS_BELOW, True, ROWS, ROWS, BN, BK, SHARES, EVEN, STAGES,
        )  # fmt: skip
