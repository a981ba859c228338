"""The walk of `paged_keys.py` over codes that are made numbers before they are multiplied.

For prompts, whose many rows share the work, where scales can't be folded into scores and weights:
those of 4-bit K, and those of a head in parts. A byte of two 4-bit codes is read for each of them;
the second time it lies in the cache.

Codes and scales are exact in fp16, so that their product is rounded once, to 11 bits; two numbers
share a register, where float32 spilled. Heads with numbers beyond 65,504 would become infinite.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

from kernels.kv_codes import INT4_BIAS
from kernels.kv_layout import K_GROUP
from kernels.triton.paged_keys import UNSEEN, loaded, seen_scores, weighted

GROUP_DIMS = tl.constexpr(K_GROUP)
BIAS = tl.constexpr(INT4_BIAS)


@triton.jit
def _keys(
    p_k, p_scale, at, m_key,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
    KIND: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """K [TILE, WIDTH] of tokens `at` [TILE] of the blocks at `p_k` and `p_scale` [TILE]."""
    TILE: tl.constexpr = at.shape[0]
    GROUPS: tl.constexpr = (WIDTH + GROUP_DIMS - 1) // GROUP_DIMS if KIND == "int4" else PARTS
    d = tl.arange(0, WIDTH)[None, :]
    g = tl.arange(0, GROUPS)[None, :]
    m_group = m_key[:, None]
    if KIND == "int4":
        HALF: tl.constexpr = (SIZE & -SIZE) // 2
        KEPT: tl.constexpr = (SIZE + GROUP_DIMS - 1) // GROUP_DIMS
        byte = d // (2 * HALF) * HALF + d % HALF
        packed = loaded((p_k + at * (SIZE // 2))[:, None] + byte, d < SIZE, WIDTH == SIZE)
        codes = ((packed >> (d // HALF % 2 * 4)) & 15).to(DTYPE) - BIAS
        p_group = (p_scale + at * KEPT)[:, None] + g
        if KEPT != GROUPS:
            m_group = m_group & (g < KEPT)
    else:
        codes = loaded((p_k + at * SIZE)[:, None] + d, d < SIZE, WIDTH == SIZE).to(DTYPE)
        p_group = (p_scale + at)[:, None] + g * BLOCK
    scale = tl.load(p_group, mask=m_group, other=0.0)
    grouped = tl.reshape(codes, (TILE, GROUPS, WIDTH // GROUPS)) * scale[:, :, None]
    return tl.reshape(grouped, (TILE, WIDTH))


@triton.jit
def _spread(p, m_key, WIDTH: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Scales at `p` [TILE] of PARTS as columns [WIDTH, TILE], and 0 for free tokens."""
    part = tl.arange(0, PARTS)[:, None] * BLOCK
    scale = tl.load(p[None, :] + part, mask=m_key[None, :], other=0.0)
    wide = tl.broadcast_to(scale[:, None, :], (PARTS, WIDTH // PARTS, p.shape[0]))
    return tl.reshape(wide, (WIDTH, p.shape[0]))


@triton.jit
def _values(
    p_v, p_scale, p_zero, row, at, m_key,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
    KIND: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """V as columns [WIDTH, TILE]; first scales lie at `row` [TILE]."""
    HALF: tl.constexpr = BLOCK // 2
    d = tl.arange(0, WIDTH)[:, None]
    scale = _spread(p_scale + row, m_key, WIDTH, PARTS, BLOCK)
    if KIND == "int4":
        p_bytes = (p_v + at % HALF)[None, :] + d * HALF
        packed = loaded(p_bytes, d < SIZE, WIDTH == SIZE)
        codes = ((packed >> (at // HALF * 4)[None, :]) & 15).to(DTYPE)
        zero = _spread(p_zero + row, m_key, WIDTH, PARTS, BLOCK)
        return codes * scale + zero
    else:
        codes = loaded((p_v + at)[None, :] + d * BLOCK, d < SIZE, WIDTH == SIZE).to(DTYPE)
        if KIND == "fp8":
            # Free bytes may be NaN, which no scale of 0 makes harmless.
            codes = tl.where(m_key[None, :], codes, 0.0)
        return codes * scale


@triton.jit
def attend_widened_keys(
    q, position, low, start, end, length, i_kv,
    p_k, p_v, p_k_scale, p_v_scale, p_v_zero, p_table,
    k_step, v_step, k_scale_step, v_scale_step, scale, cap,
    ROWS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr,
    BLOCK: tl.constexpr, WINDOW: tl.constexpr, HAS_CAP: tl.constexpr,
    K_KIND: tl.constexpr, V_KIND: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """As `attend_keys`, with q and the means [ROWS, WIDTH] in one tile."""
    K_BYTES: tl.constexpr = SIZE // 2 if K_KIND == "int4" else SIZE
    GROUPS: tl.constexpr = (SIZE + GROUP_DIMS - 1) // GROUP_DIMS
    K_SCALES: tl.constexpr = GROUPS if K_KIND == "int4" else PARTS
    V_BYTES: tl.constexpr = SIZE // 2 if V_KIND == "int4" else SIZE
    p_k += i_kv * (BLOCK * K_BYTES)
    p_v += i_kv * (BLOCK * V_BYTES)
    best = tl.full((ROWS,), UNSEEN, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    out = tl.zeros((ROWS, WIDTH), tl.float32)
    for start_of_tile in tl.range(start, end, TILE, num_stages=STAGES):
        key = start_of_tile + tl.arange(0, TILE)
        m_key = (key >= low) & (key < length)
        block = tl.load(p_table + tl.minimum(key // BLOCK, (length - 1) // BLOCK)).to(tl.int64)
        at = key % BLOCK
        p_scales = p_k_scale + block * k_scale_step + i_kv * (BLOCK * K_SCALES)
        k = _keys(p_k + block * k_step, p_scales, at, m_key,
                  SIZE, WIDTH, PARTS, BLOCK, K_KIND, q.dtype)  # fmt: skip
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = seen_scores(scores, key, position, cap, WINDOW, HAS_CAP)
        weight, kept, best, total = weighted(scores, best, total)
        p_values = p_v + block * v_step
        if V_KIND == "bf16":
            d = tl.arange(0, WIDTH)
            p_rows = (p_values + at * SIZE)[:, None] + d[None, :]
            v = tl.load(p_rows, mask=m_key[:, None] & (d < SIZE)[None, :], other=0.0)
        else:
            row = block * v_scale_step + i_kv * (BLOCK * PARTS) + at
            v = tl.trans(_values(p_values, p_v_scale, p_v_zero, row, at, m_key,
                                 SIZE, WIDTH, PARTS, BLOCK, V_KIND, q.dtype))  # fmt: skip
        out = tl.dot(weight.to(v.dtype), v, out * kept[:, None])
    return best + tl.log2(total), out / total[:, None]
