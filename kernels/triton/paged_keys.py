"""Attention of a tile of rows over a range of a sequence's keys, read from the paged pool.

Scores, softmax and sums are float32; products are taken in fp16 for K in fp16, in bf16 for others.
Scales never touch a K or V tile: that of K multiplies the column of scores, that of V the column of
weights. V in 8 bits lies transposed in its block (`kv_layout.py`): the second product needs
neighbouring tokens in one register.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
UNSEEN = tl.constexpr(-1e30)
"""Score of a key that a row doesn't see. Infinity would make NaN of a tile that is unseen as a
whole.
"""


@triton.jit
def seen_scores(
    scores, key, position, cap, WINDOW: tl.constexpr, HAS_CAP: tl.constexpr
):  # fmt: skip
    """Scores [ROWS, TILE] capped, as powers of two, those of keys that a row doesn't see UNSEEN."""
    if HAS_CAP:
        # cap * tanh(scores / cap)
        scores = cap * (1.0 - 2.0 / (tl.exp2(scores * (2.0 * LOG2_E / cap)) + 1.0))
    seen = key[None, :] <= position[:, None]
    if WINDOW > 0:
        seen = seen & (key[None, :] > position[:, None] - WINDOW)
    return tl.where(seen, scores * LOG2_E, UNSEEN)


@triton.jit
def loaded(p, m, IS_WHOLE: tl.constexpr):
    """A tile; `m` masks the dims that pad a head to a power of two."""
    if IS_WHOLE:
        return tl.load(p)
    else:
        return tl.load(p, mask=m, other=0.0)


@triton.jit
def scales(p, m_key):
    """float32; free tokens may have NaN."""
    return tl.load(p, mask=m_key, other=0.0).to(tl.float32)


@triton.jit
def attend_keys(
    q, position, low, start, end, length, i_kv,
    p_k, p_v, p_k_scale, p_v_scale, p_table,
    k_step, v_step, k_scale_step, v_scale_step, scale, cap,
    ROWS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    WINDOW: tl.constexpr, HAS_CAP: tl.constexpr, V_KIND: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """q [ROWS, WIDTH] in the dtype of products, rows at `position`, over keys start .. end - 1.

    Keys before `low` are seen by no row and may be gone. `p_table`: the sequence's blocks; steps
    are elements between blocks. Returns log2 of the sums of weights, and the weighted means of V.
    """
    p_k += i_kv * (BLOCK * SIZE)
    p_v += i_kv * (BLOCK * SIZE)
    d = tl.arange(0, WIDTH)
    m_dim = d < SIZE
    best = tl.full((ROWS,), UNSEEN, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    out = tl.zeros((ROWS, WIDTH), tl.float32)
    for start_of_tile in tl.range(start, end, TILE, num_stages=STAGES):
        key = start_of_tile + tl.arange(0, TILE)
        m_key = (key >= low) & (key < length)
        # The bound is put on block numbers: one on keys would cost the wide loads.
        block = tl.load(p_table + tl.minimum(key // BLOCK, (length - 1) // BLOCK)).to(tl.int64)
        at = key % BLOCK
        p_keys = p_k + (block * k_step)[:, None] + at[:, None] * SIZE + d[None, :]
        k = loaded(p_keys, m_dim[None, :], WIDTH == SIZE)
        scores = tl.dot(q, tl.trans(k.to(q.dtype)))
        if p_k_scale is not None:
            p_scales = p_k_scale + block * k_scale_step + i_kv * BLOCK + at
            scores = scores * (scales(p_scales, m_key) * scale)[None, :]
        else:
            scores = scores * scale
        scores = seen_scores(scores, key, position, cap, WINDOW, HAS_CAP)
        new_best = tl.maximum(best, tl.max(scores, 1))
        weight = tl.exp2(scores - new_best[:, None])
        kept = tl.exp2(best - new_best)
        best = new_best
        total = total * kept + tl.sum(weight, 1)
        out = out * kept[:, None]
        if p_v_scale is not None:
            p_values = p_v + (block * v_step)[None, :] + d[:, None] * BLOCK + at[None, :]
            v = loaded(p_values, m_dim[:, None], WIDTH == SIZE).to(q.dtype)
            if V_KIND == "fp8":
                # Free bytes may be NaN, which no weight of 0 makes harmless.
                v = tl.where(m_key[None, :], v, 0.0)
            p_scales = p_v_scale + block * v_scale_step + i_kv * BLOCK + at
            weight = weight * scales(p_scales, m_key)[None, :]
            out = tl.dot(weight.to(q.dtype), tl.trans(v), out)
        else:
            p_values = p_v + (block * v_step)[:, None] + at[:, None] * SIZE + d[None, :]
            v = tl.load(p_values, mask=m_key[:, None] & m_dim[None, :], other=0.0)
            out = tl.dot(weight.to(v.dtype), v, out)
    return best + tl.log2(total), out / total[:, None]
