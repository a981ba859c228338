"""The walk of `paged_keys.py` over K in 8 or 4 bits and V in 4: formats k8v4 and q4.

Tokens n and n + BLOCK / 2 of a block share the bytes of V, so a step takes both halves of its
blocks: two tiles of scores, one tile of bytes, two products. 4-bit K has a scale per group of dims
and is widened in registers. Dims share its bytes as well (`kv_layout.py`), and so q comes as those
of low and those of high codes, in the order of the bytes.

V = code * scale + zero: the scale is folded into the weights, which are rounded then, and the zeros
add the same to every dim. The product with codes 0..15 is large and all but cancels against the
zeros, and so would the rounding not: what it took from a weight is added back, for the middle code.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def,assignment"
# mypy: disallow-untyped-calls=False
# Triton joins tuples, which then have other types, and doesn't unpack them. mypy's list has no room.
# ruff: noqa: RUF005, E501

from __future__ import annotations

import triton
import triton.language as tl

from kernels.kv_codes import INT4_BIAS
from kernels.kv_layout import K_GROUP
from kernels.triton.paged_keys import (
    UNSEEN,
    loaded,
    means,
    products,
    scales,
    seen_scores,
    zero_parts,
)

GROUP_DIMS = tl.constexpr(K_GROUP)
BIAS = tl.constexpr(INT4_BIAS)


@triton.jit
def _low(i, HALF: tl.constexpr):
    """Where the low one of pair i lies: pairs are HALF apart."""
    return i // HALF * (2 * HALF) + i % HALF


@triton.jit
def loaded_halves(
    p_rows, m_row, DTYPE: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Rows at `p_rows` [ROWS, 1], their dims of low and of high codes: two tiles [ROWS, WIDTH]."""
    HALF: tl.constexpr = (SIZE & -SIZE) // 2
    b = tl.arange(0, WIDTH)[None, :]
    p = p_rows + _low(b, HALF)
    m = m_row & (b < SIZE // 2)
    low, high = tl.load(p, mask=m, other=0.0), tl.load(p + HALF, mask=m, other=0.0)
    return low.to(DTYPE), high.to(DTYPE)


@triton.jit
def _widened(codes, scale):
    """codes [KEYS, BYTES] of 0..15, scale [KEYS, GROUPS]: float32 numbers."""
    GROUPS: tl.constexpr = scale.shape[1]
    signed = codes.to(tl.float32) - BIAS
    grouped = tl.reshape(signed, (codes.shape[0], GROUPS, codes.shape[1] // GROUPS))
    return tl.reshape(grouped * scale[:, :, None], codes.shape)


@triton.jit
def _products4(q, p_k, p_scale, token, m_key, SIZE: tl.constexpr):
    """Halves of q times keys, `token` [KEYS] of the block of each: [ROWS, KEYS]."""
    WIDTH: tl.constexpr = q[0].shape[1]
    BYTES: tl.constexpr = SIZE // 2
    GROUPS: tl.constexpr = (SIZE + GROUP_DIMS - 1) // GROUP_DIMS
    b = tl.arange(0, WIDTH)[None, :]
    p_bytes = p_k[:, None] + token[:, None] * BYTES + b
    packed = loaded(p_bytes, b < BYTES, WIDTH == BYTES)
    p_group = p_scale[:, None] + token[:, None] * GROUPS
    R: tl.constexpr = SIZE & -SIZE
    if R <= GROUP_DIMS:
        # Both codes of a byte are of one group.
        g = tl.arange(0, (2 * WIDTH + GROUP_DIMS - 1) // GROUP_DIMS)[None, :]
        of_low = scales(p_group + g, m_key[:, None] & (g < GROUPS))
        low, high = _widened(packed & 15, of_low), _widened(packed >> 4, of_low)
    else:
        APART: tl.constexpr = R // GROUP_DIMS // 2
        g = _low(tl.arange(0, WIDTH // GROUP_DIMS), APART)[None, :]
        m_group = m_key[:, None]
        if WIDTH != BYTES:
            m_group = m_group & (g < GROUPS)
        low = _widened(packed & 15, scales(p_group + g, m_group))
        high = _widened(packed >> 4, scales(p_group + g + APART, m_group))
    scores = tl.dot(q[0], tl.trans(low.to(q[0].dtype)))
    return tl.dot(q[1], tl.trans(high.to(q[1].dtype)), scores)


@triton.jit
def _folded(weight, p_scale, p_zero, m_key, DTYPE: tl.constexpr):
    """Weights [ROWS, KEYS] of codes, rounded, and what a row adds to every dim."""
    zero = scales(p_zero, m_key)
    exact = weight * scales(p_scale, m_key)[None, :]
    kept = exact.to(DTYPE)
    added = weight * zero[None, :] + BIAS * (exact - kept.to(tl.float32))
    return kept, tl.sum(added, 1)


@triton.jit
def _added(
    out, w_first, w_second, p_bytes, p_scale, p_zero, m_first, m_second,
    DTYPE: tl.constexpr, FIRST: tl.constexpr, SIZE: tl.constexpr, HALF_BLOCK: tl.constexpr,
):  # fmt: skip
    """out [ROWS, WIDTH] and the weighted codes of dims FIRST .., and what is added to each."""
    d = FIRST + tl.arange(0, out.shape[1])
    w_first, added_first = _folded(w_first, p_scale, p_zero, m_first, DTYPE)
    w_second, added_second = _folded(
        w_second, p_scale + HALF_BLOCK, p_zero + HALF_BLOCK, m_second, DTYPE
    )
    p_tile = p_bytes[None, :] + d[:, None] * HALF_BLOCK
    packed = loaded(p_tile, (d < SIZE)[:, None], FIRST + out.shape[1] <= SIZE)
    out = tl.dot(w_first, tl.trans((packed & 15).to(DTYPE)), out)
    out = tl.dot(w_second, tl.trans((packed >> 4).to(DTYPE)), out)
    return out, added_first + added_second


@triton.jit
def _sums(
    out, shift, kept, w_first, w_second, p_bytes, p_scale, p_zero, m_first, m_second,
    DTYPE: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Parts of the sums of codes and of what is added to them, both `kept`, and these keys'."""
    sums, added = _added(out[0] * kept[:, None], w_first, w_second, p_bytes, p_scale, p_zero,
                         m_first, m_second, DTYPE, 0, SIZE, BLOCK // 2)  # fmt: skip
    all_sums, shifts = (sums,), (shift[0] * kept + added,)
    for i in tl.static_range(1, PARTS):
        first = i * out[0].shape[1]
        sums, added = _added(out[i] * kept[:, None], w_first, w_second, p_bytes,
                             p_scale + i * BLOCK, p_zero + i * BLOCK, m_first, m_second,
                             DTYPE, first, SIZE, BLOCK // 2)  # fmt: skip
        all_sums, shifts = all_sums + (sums,), shifts + (shift[i] * kept + added,)
    return all_sums, shifts


@triton.jit
def zero_rows(ROWS: tl.constexpr, PARTS: tl.constexpr):
    parts = (tl.zeros((ROWS,), tl.float32),)
    for _ in tl.static_range(1, PARTS):
        parts = parts + (tl.zeros((ROWS,), tl.float32),)
    return parts


@triton.jit
def _shifted(out, shift, PARTS: tl.constexpr):
    found = (out[0] + shift[0][:, None],)
    for i in tl.static_range(1, PARTS):
        found = found + (out[i] + shift[i][:, None],)
    return found


@triton.jit
def attend_packed_keys(
    q, position, low, start, end, length, i_kv,
    p_k, p_v, p_k_scale, p_v_scale, p_v_zero, p_table,
    k_step, v_step, k_scale_step, v_scale_step, scale, cap,
    ROWS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr,
    BLOCK: tl.constexpr, WINDOW: tl.constexpr, HAS_CAP: tl.constexpr, K_KIND: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """As `attend_keys`. TILE is a multiple of BLOCK; for 4-bit K, q is what `loaded_halves` gives."""
    HALF_BLOCK: tl.constexpr = BLOCK // 2
    KEYS: tl.constexpr = TILE // 2
    K_BYTES: tl.constexpr = SIZE // 2 if K_KIND == "int4" else SIZE
    GROUPS: tl.constexpr = (SIZE + GROUP_DIMS - 1) // GROUP_DIMS
    K_SCALES: tl.constexpr = GROUPS if K_KIND == "int4" else PARTS
    n = tl.arange(0, KEYS)
    at = n % HALF_BLOCK
    best = tl.full((ROWS,), UNSEEN, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    out = zero_parts(ROWS, WIDTH, PARTS)
    shift = zero_rows(ROWS, PARTS)
    for start_of_tile in tl.range(start, end, TILE, num_stages=STAGES):
        i_block = start_of_tile // BLOCK + n // HALF_BLOCK
        block = tl.load(p_table + tl.minimum(i_block, (length - 1) // BLOCK)).to(tl.int64)
        p_keys = p_k + block * k_step + i_kv * (BLOCK * K_BYTES)
        p_k_scales = p_k_scale + block * k_scale_step + i_kv * (BLOCK * K_SCALES)
        first = i_block * BLOCK + at
        second = first + HALF_BLOCK
        m_first = (first >= low) & (first < length)
        m_second = (second >= low) & (second < length)
        late = at + HALF_BLOCK
        if K_KIND == "int4":
            s_first = _products4(q, p_keys, p_k_scales, at, m_first, SIZE)
            s_second = _products4(q, p_keys, p_k_scales, late, m_second, SIZE)
        else:
            s_first = products(
                q, p_keys + at * SIZE, p_k_scales, at, m_first, 1.0, SIZE, PARTS, BLOCK
            )
            s_second = products(
                q, p_keys + late * SIZE, p_k_scales, late, m_second, 1.0, SIZE, PARTS, BLOCK
            )
        s_first = seen_scores(s_first * scale, first, position, cap, WINDOW, HAS_CAP)
        s_second = seen_scores(s_second * scale, second, position, cap, WINDOW, HAS_CAP)
        new_best = tl.maximum(best, tl.maximum(tl.max(s_first, 1), tl.max(s_second, 1)))
        w_first = tl.exp2(s_first - new_best[:, None])
        w_second = tl.exp2(s_second - new_best[:, None])
        kept = tl.exp2(best - new_best)
        best = new_best
        total = total * kept + tl.sum(w_first, 1) + tl.sum(w_second, 1)
        row = block * v_scale_step + i_kv * (BLOCK * PARTS) + at
        p_bytes = p_v + block * v_step + i_kv * (HALF_BLOCK * SIZE) + at
        out, shift = _sums(out, shift, kept, w_first, w_second, p_bytes,
                           p_v_scale + row, p_v_zero + row, m_first, m_second,
                           q[0].dtype, SIZE, PARTS, BLOCK)  # fmt: skip
    return best + tl.log2(total), means(_shifted(out, shift, PARTS), total, PARTS)
