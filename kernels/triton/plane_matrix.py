"""A packed weight as a dense matrix, for the vendor's matrix product over many rows.

A program does 64 columns of some rows, in the order of float operations of `ggml_blocks.py`.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kernels.plane_format import CHUNK
from kernels.triton.chosen_tokens import known_tokens
from kernels.triton.plane_arguments import plane_arguments
from kernels.triton.plane_tiles import (
    byte_codes,
    float_codes,
    group_min,
    group_scale,
    half_of,
    load_low,
    load_narrow,
    load_words,
    looked_up_codes,
    small_codes,
)
from kernels.weight_planes import PlaneWeight

ROWS = 64
"""Of a program: a tile of each plane is one contiguous piece of 0.5 to 4 KiB."""
FEW_ROWS = 16
"""The same where rows are gathered: rarely more of them are wanted."""
WARPS = 2


@triton.jit
def lifted_codes(
    w, h, p_values, TILE: tl.constexpr, CODES: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """A tile of codes with what is added to them still on, float32 [BN, 16]."""
    if CODES == "small":
        return small_codes(w, h, TILE, LOW, HIGH, BN).to(tl.float32)
    elif CODES == "values":
        return looked_up_codes(w, p_values, TILE, BN).to(tl.float32)
    elif CODES == "bytes":
        upper, lowest = byte_codes(w, TILE, BN)
        return upper.to(tl.float32) + lowest.to(tl.float32)
    else:
        return float_codes(w, TILE, BN).to(tl.float32)


@triton.jit(do_not_specialize=["count"])
def plane_matrix_kernel(
    p_words, p_rows, p_chosen, p_out, out_step, high_at, scales_at, mins_at, supers_at, values_at,
    n, k, count,
    CODES: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, GROUP: tl.constexpr,
    LIFT: tl.constexpr, SCALES: tl.constexpr, HAS_MINS: tl.constexpr, HAS_SUPERS: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """`p_rows`: which rows are wanted, `count` of them; None: all in order. `p_chosen`: what
    negative ones stand for, if anything.
    """
    i_n, chunk = tl.program_id(0), tl.program_id(1)
    row_out = i_n.to(tl.int64) * BN + tl.arange(0, BN)
    m_row = row_out < count
    row = row_out
    if p_rows is not None:
        row = tl.load(p_rows + row_out, mask=m_row, other=0)
        if p_chosen is not None:
            row = known_tokens(row, p_chosen, m_row)
    w0, w1 = load_low(p_words, chunk, row, m_row, n, k, LOW, True)
    h = w0
    if HIGH > 0:
        h = load_narrow(p_words + high_at, chunk, row, m_row, n, k, HIGH, True)
    PER_WORD: tl.constexpr = 2 if SCALES == "wide" else 1
    word = load_words(p_words + scales_at, chunk // PER_WORD, 0, row, m_row, n, True)
    least = word
    if SCALES == "pair" and HAS_MINS:
        least = load_words(p_words + mins_at, chunk, 0, row, m_row, n, True)
    d = 0.0
    m = 0.0
    if HAS_SUPERS:
        supers = load_words(p_words + supers_at, chunk // 4, 0, row, m_row, n, True)
        d = half_of(supers, False)
        m = half_of(supers, True)
    w = (w0, w0, w1, w1)
    TILES: tl.constexpr = GROUP // 16 if GROUP < 64 else 4
    for tile in tl.static_range(4):
        codes = lifted_codes(w[tile], h, p_words + values_at, tile, CODES, LOW, HIGH, BN) - LIFT
        y = codes * group_scale(word, d, tile // TILES, SCALES, CODES)[:, None]
        if HAS_MINS:
            y -= group_min(word, least, m, tile // TILES, SCALES)[:, None]
        c = chunk * 64 + tile * 16 + tl.arange(0, 16)
        mask = m_row[:, None] & (c < k)[None, :]
        p = p_out + row_out[:, None] * out_step + c[None, :]
        tl.store(p, y.to(p_out.dtype.element_ty), mask=mask)


def plane_matrix(weight: PlaneWeight, out: Tensor) -> Tensor:
    """weight [N, K] into out [N, K], whose rows are dense."""
    return _launch(weight, None, None, out, ROWS)


def plane_rows(
    weight: PlaneWeight, rows: Tensor, out: Tensor, chosen: Tensor | None = None
) -> Tensor:
    """The rows int64 [R] of weight [N, K] into out [R, K], whose rows are dense; with `chosen`
    int64 [M] row r < 0 is chosen[-1 - r].
    """
    return _launch(weight, rows, chosen, out, FEW_ROWS)


def _launch(
    weight: PlaneWeight, rows: Tensor | None, chosen: Tensor | None, out: Tensor, tile: int
) -> Tensor:
    count = out.shape[0]
    n, k = weight.shape
    if count == 0:
        return out
    plane_matrix_kernel[(triton.cdiv(count, tile), triton.cdiv(k, CHUNK))](
        p_rows=rows,
        p_chosen=chosen,
        p_out=out,
        out_step=out.stride(0),
        n=n,
        k=k,
        count=count,
        BN=tile,
        num_warps=WARPS,
        **plane_arguments(weight),
    )
    return out
