"""A few rows through a packed weight, or through two for a gated network: tensor cores, one launch.

The weight's rows are the M of the product and the rows of x its N, so that 1 to 8 rows cost the
same and none sees the others. Codes go into the dot as exact integers; each group's sum is then
scaled: sum((code - zero) * scale - min) x = scale * sum(code x) - (scale * zero + min) * sum(x).
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

from kernels.triton.plane_tiles import (
    add_tile,
    group_min,
    group_scale,
    half_of,
    load_low,
    load_narrow,
    load_words,
)
from kernels.triton.results import store_results
from kernels.triton.shares import steps_of_share
from kernels.triton.x_tiles import load_x


@triton.jit
def add_chunk(
    acc, p_words, p_values, x0, x1, x2, x3, sum0, sum1, sum2, sum3, chunk, row, m_row,
    high_at, scales_at, mins_at, supers_at, n, k,
    CODES: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, GROUP: tl.constexpr,
    LIFT: tl.constexpr, SCALES: tl.constexpr, HAS_MINS: tl.constexpr, HAS_SUPERS: tl.constexpr,
    ROWS: tl.constexpr, BN: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """acc [BN, ROWS] and the product of 64 columns; `sum*`: of x over each group."""
    w0, w1 = load_low(p_words, chunk, row, m_row, n, k, LOW, EVEN)
    h = w0
    if HIGH > 0:
        h = load_narrow(p_words + high_at, chunk, row, m_row, n, k, HIGH, EVEN)
    PER_WORD: tl.constexpr = 2 if SCALES == "wide" else 1
    words = tl.cdiv(k, 64 * PER_WORD)
    word = load_words(p_words + scales_at, chunk // PER_WORD, words, row, m_row, n, EVEN)
    least = word
    if SCALES == "pair" and HAS_MINS:
        least = load_words(p_words + mins_at, chunk, words, row, m_row, n, EVEN)
    d = 0.0
    m = 0.0
    if HAS_SUPERS:
        supers = load_words(p_words + supers_at, chunk // 4, tl.cdiv(k, 256), row, m_row, n, EVEN)
        d = half_of(supers, False)
        if HAS_MINS:
            m = half_of(supers, True)
    w = (w0, w0, w1, w1)
    x = (x0, x1, x2, x3)
    sums = (sum0, sum1, sum2, sum3)
    TILES: tl.constexpr = GROUP // 16 if GROUP < 64 else 4
    for part in tl.static_range(4 // TILES):
        dot = tl.zeros((BN, ROWS), tl.float32)
        for tile in tl.static_range(part * TILES, (part + 1) * TILES):
            dot = add_tile(dot, x[tile], w[tile], h, p_values, tile, CODES, LOW, HIGH, BN)
        scale = group_scale(word, d, part, SCALES, CODES)
        acc += dot * scale[:, None]
        if LIFT > 0 or HAS_MINS:
            lift = scale * LIFT
            if HAS_MINS:
                lift += group_min(word, least, m, part, SCALES)
            acc -= sums[part] * lift[:, None]
    return acc


@triton.jit
def sums_of_groups(x0, x1, x2, x3, none, GROUP: tl.constexpr, BN: tl.constexpr):
    """Sums over the columns of each group of 64, in the layout of a dot [BN, ROWS]."""
    ones = tl.full((BN, 16), 1.0, tl.float32).to(tl.bfloat16)
    if GROUP == 16:
        return tl.dot(ones, x0), tl.dot(ones, x1), tl.dot(ones, x2), tl.dot(ones, x3)
    first = tl.dot(ones, x1, tl.dot(ones, x0))
    if GROUP == 32:
        return first, tl.dot(ones, x3, tl.dot(ones, x2)), none, none
    return tl.dot(ones, x3, tl.dot(ones, x2, first)), none, none, none


@triton.jit
def packed_rows(
    p_x, p_norm, p_words, p_words_up, p_bias, p_residual, p_out, p_room, p_arrived,
    x_step, residual_step, out_step, high_at, scales_at, mins_at, supers_at, values_at,
    i_n, i_tile, i_share, n, k, tokens, eps, offset,
    CODES: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, GROUP: tl.constexpr,
    LIFT: tl.constexpr, SCALES: tl.constexpr, HAS_MINS: tl.constexpr, HAS_SUPERS: tl.constexpr,
    IS_SILU: tl.constexpr, ROWS: tl.constexpr, KEPT: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, SHARES: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Rows i_n * BN .. of the weight with a few rows of x: what a program does.

    `*_at`: words before a plane. Codes appear in the dot as `LIFT` + what they stand for. `i_tile`:
    place of the tile in the room that shares are joined in.
    """
    IS_GATED: tl.constexpr = p_words_up is not None
    HAS_NORM: tl.constexpr = p_norm is not None
    p_values = p_words + values_at
    row = i_n.to(tl.int64) * BN + tl.arange(0, BN)
    m_row = row < n
    acc = tl.zeros((BN, ROWS), tl.float32)
    acc_up = tl.zeros((BN, ROWS), tl.float32)
    squares = tl.zeros((16, ROWS), tl.float32)
    first, stop = steps_of_share(i_share, tl.cdiv(k, BK), SHARES)
    for i in tl.range(first, stop, num_stages=STAGES):
        for c in tl.static_range(BK // 64):
            chunk = i * (BK // 64) + c
            x0, squares = load_x(p_x, p_norm, squares, chunk * 64, x_step, tokens, k, offset,
                                 16, ROWS, HAS_NORM, EVEN)  # fmt: skip
            x1, squares = load_x(p_x, p_norm, squares, chunk * 64 + 16, x_step, tokens, k, offset,
                                 16, ROWS, HAS_NORM, EVEN)  # fmt: skip
            x2, squares = load_x(p_x, p_norm, squares, chunk * 64 + 32, x_step, tokens, k, offset,
                                 16, ROWS, HAS_NORM, EVEN)  # fmt: skip
            x3, squares = load_x(p_x, p_norm, squares, chunk * 64 + 48, x_step, tokens, k, offset,
                                 16, ROWS, HAS_NORM, EVEN)  # fmt: skip
            sum0, sum1, sum2, sum3 = acc, acc, acc, acc
            if LIFT > 0 or HAS_MINS:
                sum0, sum1, sum2, sum3 = sums_of_groups(x0, x1, x2, x3, acc, GROUP, BN)
            acc = add_chunk(
                acc, p_words, p_values, x0, x1, x2, x3, sum0, sum1, sum2, sum3, chunk, row, m_row,
                high_at, scales_at, mins_at, supers_at, n, k, CODES, LOW, HIGH, GROUP, LIFT, SCALES,
                HAS_MINS, HAS_SUPERS, ROWS, BN, EVEN,
            )  # fmt: skip
            if IS_GATED:
                acc_up = add_chunk(
                    acc_up, p_words_up, p_values, x0, x1, x2, x3, sum0, sum1, sum2, sum3, chunk,
                    row, m_row, high_at, scales_at, mins_at, supers_at, n, k, CODES, LOW, HIGH,
                    GROUP, LIFT, SCALES, HAS_MINS, HAS_SUPERS, ROWS, BN, EVEN,
                )  # fmt: skip
    store_results(
        acc, acc_up, tl.sum(squares, 0), p_bias, p_residual, p_out, p_room, p_arrived,
        i_tile, i_share, row, m_row, residual_step, out_step, n, k, tokens, eps,
        BN, ROWS, KEPT, SHARES, IS_GATED, IS_SILU, HAS_NORM,
    )  # fmt: skip


@triton.jit(do_not_specialize=["tokens", "repeats", "eps", "offset"])
def packed_linear_kernel(
    p_x, p_norm, p_words, p_words_up, p_experts, p_bias, p_residual, p_out, p_room, p_arrived,
    x_step, residual_step, out_step, words_step, high_at, scales_at, mins_at, supers_at, values_at,
    n, k, tokens, repeats, eps, offset,
    CODES: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, GROUP: tl.constexpr,
    LIFT: tl.constexpr, SCALES: tl.constexpr, HAS_MINS: tl.constexpr, HAS_SUPERS: tl.constexpr,
    IS_SILU: tl.constexpr, ROWS: tl.constexpr, KEPT: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, SHARES: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # Programs of other rows come next: they find the weight in the cache.
    i_row, i_n, i_share = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_tile = i_row * tl.num_programs(1) + i_n
    if p_experts is not None:
        skipped = tl.load(p_experts + i_row).to(tl.int64) * words_step
        p_words += skipped
        if p_words_up is not None:
            p_words_up += skipped
        row_of_x, row_of_out = (i_row // repeats).to(tl.int64), i_row.to(tl.int64)
    else:
        row_of_x, row_of_out = i_row.to(tl.int64) * ROWS, i_row.to(tl.int64) * ROWS
        tokens -= i_row * ROWS
    p_x += row_of_x * x_step
    p_out += row_of_out * out_step
    if p_residual is not None:
        p_residual += row_of_out * residual_step
    packed_rows(
        p_x, p_norm, p_words, p_words_up, p_bias, p_residual, p_out, p_room, p_arrived,
        x_step, residual_step, out_step, high_at, scales_at, mins_at, supers_at, values_at,
        i_n, i_tile, i_share, n, k, tokens, eps, offset,
        CODES, LOW, HIGH, GROUP, LIFT, SCALES, HAS_MINS, HAS_SUPERS,
        IS_SILU, ROWS, KEPT, BN, BK, SHARES, EVEN, STAGES,
    )  # fmt: skip
