"""The walk of `paged_keys.py` over K in 8 or 4 bits and V in 4: formats k8v4 and q4.

Tokens n and n + BLOCK / 2 of a block share the bytes of V, so a step takes both halves of its
blocks: two tiles of scores, one tile of bytes, two products. 4-bit K has a scale per group of dims
and is widened in registers; dims d and d + D / 2 share its bytes.

V = code * scale + zero: the scale is folded into the weights, which are rounded then, and the zeros
add the same to every dim. The product with codes 0..15 is large and all but cancels against the
zeros, and so would the rounding not: what it took from a weight is added back, for the middle code.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

from kernels.kv_codes import INT4_BIAS
from kernels.kv_layout import K_GROUP
from kernels.triton.paged_keys import UNSEEN, loaded, scales, seen_scores

GROUP_DIMS = tl.constexpr(K_GROUP)
BIAS = tl.constexpr(INT4_BIAS)


@triton.jit
def _widened(codes, scale, KEYS: tl.constexpr, DIMS: tl.constexpr):
    """codes [KEYS, DIMS] of 0..15, scale [KEYS, DIMS / GROUP_DIMS]: float32 numbers."""
    GROUPS: tl.constexpr = DIMS // GROUP_DIMS
    signed = codes.to(tl.float32) - BIAS
    grouped = tl.reshape(signed, (KEYS, GROUPS, GROUP_DIMS)) * scale[:, :, None]
    return tl.reshape(grouped, (KEYS, DIMS))


@triton.jit
def _products8(
    q, p_k, p_scale, row, m_key, SIZE: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """q times keys, `row` [KEYS] of each from the head's first: [ROWS, KEYS]."""
    d = tl.arange(0, WIDTH)
    k = loaded(p_k[:, None] + row[:, None] * SIZE + d[None, :], (d < SIZE)[None, :], WIDTH == SIZE)
    return tl.dot(q, tl.trans(k.to(q.dtype))) * scales(p_scale + row, m_key)[None, :]


@triton.jit
def _products4(
    q_low, q_high, p_k, p_scale, row, m_key, KEYS: tl.constexpr, SIZE: tl.constexpr
):  # fmt: skip
    HALF: tl.constexpr = SIZE // 2
    GROUPS: tl.constexpr = SIZE // GROUP_DIMS
    packed = tl.load(p_k[:, None] + row[:, None] * HALF + tl.arange(0, HALF)[None, :])
    g = tl.arange(0, GROUPS // 2)
    p_group = p_scale[:, None] + row[:, None] * GROUPS + g[None, :]
    low = _widened(packed & 15, scales(p_group, m_key[:, None]), KEYS, HALF)
    high = _widened(packed >> 4, scales(p_group + GROUPS // 2, m_key[:, None]), KEYS, HALF)
    scores = tl.dot(q_low, tl.trans(low.to(q_low.dtype)))
    return tl.dot(q_high, tl.trans(high.to(q_high.dtype)), scores)


@triton.jit
def _folded(weight, p_scale, p_zero, m_key, DTYPE: tl.constexpr):
    """Weights [ROWS, KEYS] of codes, rounded, and what a row adds to every dim."""
    zero = scales(p_zero, m_key)
    exact = weight * scales(p_scale, m_key)[None, :]
    kept = exact.to(DTYPE)
    added = weight * zero[None, :] + BIAS * (exact - kept.to(tl.float32))
    return kept, tl.sum(added, 1)


@triton.jit
def attend_packed_keys(
    q, q_low, q_high, position, low, start, end, length, i_kv,
    p_k, p_v, p_k_scale, p_v_scale, p_v_zero, p_table,
    k_step, v_step, k_scale_step, v_scale_step, scale, cap,
    ROWS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    WINDOW: tl.constexpr, HAS_CAP: tl.constexpr, K_KIND: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """As `attend_keys`. TILE is a multiple of BLOCK; `q_low`, `q_high`: halves of q for 4-bit K."""
    HALF_BLOCK: tl.constexpr = BLOCK // 2
    KEYS: tl.constexpr = TILE // 2
    K_BYTES: tl.constexpr = SIZE // 2 if K_KIND == "int4" else SIZE
    K_SCALES: tl.constexpr = SIZE // GROUP_DIMS if K_KIND == "int4" else 1
    d = tl.arange(0, WIDTH)
    n = tl.arange(0, KEYS)
    at = n % HALF_BLOCK
    best = tl.full((ROWS,), UNSEEN, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    shift = tl.zeros((ROWS,), tl.float32)
    out = tl.zeros((ROWS, WIDTH), tl.float32)
    for start_of_tile in tl.range(start, end, TILE, num_stages=STAGES):
        i_block = start_of_tile // BLOCK + n // HALF_BLOCK
        block = tl.load(p_table + tl.minimum(i_block, (length - 1) // BLOCK)).to(tl.int64)
        p_keys = p_k + block * k_step + i_kv * (BLOCK * K_BYTES)
        p_k_scales = p_k_scale + block * k_scale_step + i_kv * (BLOCK * K_SCALES)
        first = i_block * BLOCK + at
        second = first + HALF_BLOCK
        m_first = (first >= low) & (first < length)
        m_second = (second >= low) & (second < length)
        if K_KIND == "int4":
            s_first = _products4(q_low, q_high, p_keys, p_k_scales, at, m_first, KEYS, SIZE)
            s_second = _products4(
                q_low, q_high, p_keys, p_k_scales, at + HALF_BLOCK, m_second, KEYS, SIZE
            )
        else:
            s_first = _products8(q, p_keys, p_k_scales, at, m_first, SIZE, WIDTH)
            s_second = _products8(q, p_keys, p_k_scales, at + HALF_BLOCK, m_second, SIZE, WIDTH)
        s_first = seen_scores(s_first * scale, first, position, cap, WINDOW, HAS_CAP)
        s_second = seen_scores(s_second * scale, second, position, cap, WINDOW, HAS_CAP)
        new_best = tl.maximum(best, tl.maximum(tl.max(s_first, 1), tl.max(s_second, 1)))
        w_first = tl.exp2(s_first - new_best[:, None])
        w_second = tl.exp2(s_second - new_best[:, None])
        kept = tl.exp2(best - new_best)
        best = new_best
        total = total * kept + tl.sum(w_first, 1) + tl.sum(w_second, 1)
        row = block * v_scale_step + i_kv * BLOCK + at
        p_scales, p_zeros = p_v_scale + row, p_v_zero + row
        w_first, added_first = _folded(w_first, p_scales, p_zeros, m_first, q.dtype)
        w_second, added_second = _folded(
            w_second, p_scales + HALF_BLOCK, p_zeros + HALF_BLOCK, m_second, q.dtype
        )
        shift = shift * kept + added_first + added_second
        p_bytes = p_v + (block * v_step + i_kv * (HALF_BLOCK * SIZE))[None, :]
        p_bytes += d[:, None] * HALF_BLOCK + at[None, :]
        packed = loaded(p_bytes, (d < SIZE)[:, None], WIDTH == SIZE)
        out = out * kept[:, None]
        out = tl.dot(w_first, tl.trans((packed & 15).to(q.dtype)), out)
        out = tl.dot(w_second, tl.trans((packed >> 4).to(q.dtype)), out)
    return best + tl.log2(total), (out + shift[:, None]) / total[:, None]
