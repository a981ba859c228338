"""Attention of a few new tokens of each sequence over its paged KV, shared out along the keys.

The op of `kernels/attention.py` for decode, for checks of drafts, and for a short prompt behind a
long prefix. A program does one share of the keys for all query heads of a KV head, so that K and V
are read once: rows of its tile are (token, head of the group).
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.kv_layout import KVLayout
from kernels.kv_pool import KVPool
from kernels.kv_views import kv_views
from kernels.tiles import Splitting, splitting_for
from kernels.triton.limits import lacking
from kernels.triton.packed_keys import attend_packed_keys, loaded_halves
from kernels.triton.paged_keys import attend_keys, loaded_parts, store_parts
from kernels.triton.splits import (
    Partial,
    keys_of_split,
    merge_kernel,
    merge_warps,
    partial_results,
)

LEAST_ROWS = 16
"""Rows of the smallest matrix instruction."""
MOST_ROWS = 64
"""Rows of a tile that still stay in registers."""
FORMATS = ("f16", "bf16", "k8", "q8", "fp8", "k8v4", "q4")


@triton.jit(
    do_not_specialize=["table_step"],
    do_not_specialize_on_alignment=["p_first_row", "p_lengths", "p_table"],
)
def decode_attention_kernel(
    p_q, p_k, p_v, p_k_scale, p_v_scale, p_v_zero,
    p_first_row, p_lengths, p_table, p_partial, p_weight,
    table_step, k_step, v_step, k_scale_step, v_scale_step, scale, cap,
    HEADS: tl.constexpr, GROUP: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr,
    PARTS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    WINDOW: tl.constexpr, HAS_CAP: tl.constexpr,
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
    token = r // GROUP
    position = length - new + token
    row = (first + token).to(tl.int64) * HEADS + i_kv * GROUP + r % GROUP
    m_row = token < new
    p_table += i_b.to(tl.int64) * table_step
    p_rows = p_q + row[:, None] * SIZE
    if K_KIND == "int4":
        HALVES: tl.constexpr = WIDTH * PARTS // 2
        q = loaded_halves(p_rows, m_row[:, None], COMPUTED, SIZE, HALVES if HALVES > 16 else 16)
    else:
        q = loaded_parts(p_rows, m_row[:, None], COMPUTED, SIZE, WIDTH, PARTS)
    if V_KIND == "int4":
        weight, out = attend_packed_keys(
            q, position, low, start, end, length, i_kv,
            p_k, p_v, p_k_scale, p_v_scale, p_v_zero, p_table,
            k_step, v_step, k_scale_step, v_scale_step, scale, cap,
            ROWS, SIZE, WIDTH, PARTS, BLOCK, WINDOW, HAS_CAP, K_KIND, TILE, STAGES,
        )  # fmt: skip
    else:
        weight, out = attend_keys(
            q, position, low, start, end, length, i_kv, p_k, p_v, p_k_scale, p_v_scale, p_table,
            k_step, v_step, k_scale_step, v_scale_step, scale, cap,
            ROWS, SIZE, WIDTH, PARTS, BLOCK, WINDOW, HAS_CAP, V_KIND, TILE, STAGES,
        )  # fmt: skip
    p_rows = p_partial + row[:, None] * (SPLITS * SIZE) + i_split * SIZE
    store_parts(p_rows, out, m_row[:, None], SIZE, PARTS)
    tl.store(p_weight + row * SPLITS + i_split, weight, mask=m_row)


def can_run(
    head_size: int, group: int, layout: KVLayout, capability: tuple[int, int], rows: int = 1
) -> str | None:
    """Why there is no kernel for `rows` new tokens a sequence; None: there is one.

    `group`: query heads of a KV head.
    """
    found = lacking(head_size, layout, capability)
    if found is not None:
        return found
    if layout.format.name not in FORMATS:
        return f"KV in {layout.format.name} has no kernel"
    if rows * group > MOST_ROWS:
        return f"{rows} tokens of {group} heads are more than {MOST_ROWS} rows"
    tile = splitting_for(head_size, layout.format, rows, capability).tile
    if layout.format.v == "int4" and tile % layout.block != 0:
        return f"4-bit V in blocks of {layout.block} tokens has no kernel"
    return None


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
    out: Tensor | None = None,
) -> Tensor:
    """As `paged_attention`, with q [T, H, D] dense and rotated like the K that is stored.

    `rows`: the most new tokens that a sequence has. Rows of length 0 become zeros; rows that belong
    to no sequence are left undefined. `partial`: room of an earlier call.
    """
    layout = pool.layout
    plan = splitting or splitting_for(layout.head_size, layout.format, rows)
    _, heads, size = q.shape
    group = heads // layout.kv_heads
    views = kv_views(pool, layer)
    partial = partial or partial_results(q, plan.count)
    out = torch.empty_like(q) if out is None else out
    batch = lengths.shape[0]
    parts = layout.scale_parts
    shared = {
        "p_first_row": first_row,
        "p_lengths": lengths,
        "p_partial": partial.out,
        "p_weight": partial.weight,
        "HEADS": heads,
        "SIZE": size,
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
        p_v_zero=views.v_zero,
        p_table=table,
        table_step=table.stride(0),
        k_step=views.k.stride(0),
        v_step=views.v.stride(0),
        k_scale_step=views.k_scale.stride(0) if views.k_scale is not None else 0,
        v_scale_step=views.v_scale.stride(0) if views.v_scale is not None else 0,
        scale=scale,
        cap=cap or 0.0,
        GROUP=group,
        WIDTH=triton.next_power_of_2(size // parts),
        PARTS=parts,
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
        WIDTH=triton.next_power_of_2(size),
        ROTATES_V=layout.format.rotates_v,
        num_warps=merge_warps(size),
        **shared,
    )
    return out
