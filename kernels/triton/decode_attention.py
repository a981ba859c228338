"""Attention of a few new tokens of each sequence over its paged KV, shared out along the keys.

The op of `kernels/attention.py` for decode, for checks of drafts, and for a short prompt behind a
long prefix. A program does one share of the keys for all query heads of a KV head, so that K and V
are read once: rows of its tile are (token, head of the group). Scores, softmax and sums are
float32; products are taken in fp16 for K and V in fp16, in bf16 for the others.

Scales never touch a K or V tile: that of K multiplies the column of scores, that of V the column of
weights. V in 8 bits lies transposed in its block (`kv_layout.py`): the second product needs
neighbouring tokens in one register.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.kv_pool import KVPool
from kernels.kv_views import kv_views
from kernels.triton.splits import (
    UNSEEN,
    Partial,
    Splitting,
    keys_of_split,
    merge_kernel,
    merge_warps,
    partial_results,
    splitting_for,
)

LEAST_ROWS = 16
"""Rows of the smallest matrix instruction."""
MOST_ROWS = 64
"""Rows of a tile that still stay in registers."""
LOG2_E = tl.constexpr(1.4426950408889634)
FORMATS = ("f16", "bf16", "k8", "q8", "fp8")


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


@triton.jit(do_not_specialize=["table_step"])
def decode_attention_kernel(
    p_q, p_k, p_v, p_k_scale, p_v_scale, p_first_row, p_lengths, p_table, p_partial, p_weight,
    table_step, k_step, v_step, k_scale_step, v_scale_step, scale, cap,
    HEADS: tl.constexpr, GROUP: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, WINDOW: tl.constexpr, HAS_CAP: tl.constexpr,
    K_KIND: tl.constexpr, V_KIND: tl.constexpr,
    SPLITS: tl.constexpr, LEAST: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Steps are elements: between sequences of the table, between blocks of the pool's parts."""
    i_split, i_kv, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = tl.load(p_first_row + i_b).to(tl.int32)
    new = tl.load(p_first_row + i_b + 1).to(tl.int32) - first
    length = tl.load(p_lengths + i_b).to(tl.int32)
    low, start, end = keys_of_split(i_split, length, new, WINDOW, SPLITS, LEAST, TILE)
    if start >= end:
        return
    COMPUTED: tl.constexpr = tl.float16 if K_KIND == "f16" else tl.bfloat16
    r = tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    token = r // GROUP
    position = length - new + token
    row = (first + token).to(tl.int64) * HEADS + i_kv * GROUP + r % GROUP
    m_row = token < new
    m_dim = d < SIZE
    q = tl.load(p_q + row[:, None] * SIZE + d[None, :], mask=m_row[:, None] & m_dim, other=0.0)
    q = q.to(COMPUTED)
    p_table += i_b.to(tl.int64) * table_step
    p_k += i_kv * (BLOCK * SIZE)
    p_v += i_kv * (BLOCK * SIZE)
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
        scores = tl.dot(q, tl.trans(k.to(COMPUTED)))
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
            v = loaded(p_values, m_dim[:, None], WIDTH == SIZE).to(COMPUTED)
            if V_KIND == "fp8":
                # Free bytes may be NaN, which no weight of 0 makes harmless.
                v = tl.where(m_key[None, :], v, 0.0)
            p_scales = p_v_scale + block * v_scale_step + i_kv * BLOCK + at
            weight = weight * scales(p_scales, m_key)[None, :]
            out = tl.dot(weight.to(COMPUTED), tl.trans(v), out)
        else:
            p_values = p_v + (block * v_step)[:, None] + at[:, None] * SIZE + d[None, :]
            v = tl.load(p_values, mask=m_key[:, None] & m_dim[None, :], other=0.0)
            out = tl.dot(weight.to(v.dtype), v, out)
    out = out / total[:, None]
    p_rows = p_partial + row[:, None] * (SPLITS * SIZE) + i_split * SIZE + d[None, :]
    tl.store(p_rows, out, mask=m_row[:, None] & m_dim[None, :])
    tl.store(p_weight + row * SPLITS + i_split, best + tl.log2(total), mask=m_row)


def can_decode(pool: KVPool, heads: int, rows: int) -> bool:
    """Whether there is a kernel for `rows` new tokens a sequence."""
    layout = pool.layout
    fits = rows * (heads // layout.kv_heads) <= MOST_ROWS
    return fits and layout.format.name in FORMATS and layout.head_size % 16 == 0


def decode_attention(
    q: Tensor,
    pool: KVPool,
    layer: int,
    first_row: Tensor,
    lengths: Tensor,
    table: Tensor,
    scale: float,
    window: int | None = None,
    cap: float | None = None,
    rows: int = 1,
    splitting: Splitting | None = None,
    partial: Partial | None = None,
) -> Tensor:
    """As `paged_attention`, with q [T, H, D] dense and rotated like the K that is stored.

    `rows`: the most new tokens that a sequence has. Rows of length 0 become zeros; rows that belong
    to no sequence are left undefined. `partial`: room of an earlier call.
    """
    layout, plan = pool.layout, splitting or splitting_for(pool.layout.head_size)
    _, heads, size = q.shape
    group = heads // layout.kv_heads
    views = kv_views(pool, layer)
    partial = partial or partial_results(q, plan.count)
    out = torch.empty_like(q)
    batch = lengths.shape[0]
    shared = {
        "p_first_row": first_row,
        "p_lengths": lengths,
        "p_partial": partial.out,
        "p_weight": partial.weight,
        "HEADS": heads,
        "SIZE": size,
        "WIDTH": triton.next_power_of_2(size),
        "WINDOW": window or 0,
        "SPLITS": plan.count,
        "LEAST": plan.least,
        "TILE": plan.tile,
    }
    decode_attention_kernel[(plan.count, layout.kv_heads, batch)](
        p_q=q,
        p_k=views.k,
        p_v=views.v,
        p_k_scale=views.k_scale,
        p_v_scale=views.v_scale,
        p_table=table,
        table_step=table.stride(0),
        k_step=views.k.stride(0),
        v_step=views.v.stride(0),
        k_scale_step=views.k_scale.stride(0) if views.k_scale is not None else 0,
        v_scale_step=views.v_scale.stride(0) if views.v_scale is not None else 0,
        scale=scale,
        cap=cap or 0.0,
        GROUP=group,
        BLOCK=layout.block,
        ROWS=max(LEAST_ROWS, triton.next_power_of_2(rows * group)),
        HAS_CAP=cap is not None,
        K_KIND=layout.format.k,
        V_KIND=layout.format.v,
        STAGES=plan.stages,
        num_warps=plan.warps,
        **shared,
    )
    merge_kernel[(rows, heads, batch)](
        p_out=out,
        ROTATES_V=layout.format.rotates_v,
        num_warps=merge_warps(size),
        **shared,
    )
    return out
