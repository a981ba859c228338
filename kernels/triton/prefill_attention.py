"""Attention of many new tokens of each sequence over its paged KV, their own included.

The op of `kernels/attention.py` for prompts. A program does some tokens of one sequence with all
query heads of a KV head, so that a tile of K and V serves the whole group; it walks from the first
key that its oldest token sees to its youngest token.
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
from kernels.tiles import PrefillTile, tile_for
from kernels.triton.limits import lacking
from kernels.triton.paged_keys import attend_keys, loaded_parts, store_parts
from kernels.triton.rotation import rotated
from kernels.triton.widened_keys import attend_widened_keys

FORMATS = ("f16", "bf16", "k8", "q8", "fp8", "k8v4", "q4")


@triton.jit
def _rows(
    first, oldest, new, i_kv, HEADS: tl.constexpr, GROUP: tl.constexpr, PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Which rows of q a program does, and which of them there are: [ROWS], [ROWS, 1]."""
    r = tl.arange(0, ROWS)
    token = oldest + r // PADDED
    row = (first + token).to(tl.int64) * HEADS + i_kv * GROUP + r % PADDED
    return row, ((token < new) & (r % PADDED < GROUP))[:, None]


@triton.jit(
    do_not_specialize=["table_step"],
    do_not_specialize_on_alignment=["p_first_row", "p_lengths", "p_table"],
)
def prefill_attention_kernel(
    p_q, p_k, p_v, p_k_scale, p_v_scale, p_v_zero, p_first_row, p_lengths, p_table, p_out,
    table_step, k_step, v_step, k_scale_step, v_scale_step, scale, cap,
    HEADS: tl.constexpr, GROUP: tl.constexpr, PADDED: tl.constexpr, SIZE: tl.constexpr,
    WIDTH: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    WINDOW: tl.constexpr, HAS_CAP: tl.constexpr, K_KIND: tl.constexpr, V_KIND: tl.constexpr,
    ROTATES_V: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """PADDED: heads of a group, up to a power of two. Steps are elements, as for decode."""
    TOKENS: tl.constexpr = ROWS // PADDED
    # The youngest tokens have the longest way: they start first.
    i_tile = tl.num_programs(0) - 1 - tl.program_id(0)
    i_kv, i_b = tl.program_id(1), tl.program_id(2)
    first = tl.load(p_first_row + i_b).to(tl.int32)
    new = tl.load(p_first_row + i_b + 1).to(tl.int32) - first
    length = tl.load(p_lengths + i_b).to(tl.int32)
    oldest = i_tile * TOKENS
    if oldest >= new:
        return
    # Scales of parts, and of 4 bits, can't be folded into many rows' weights: their codes are made
    # numbers, exact in fp16, and the parts are one tile.
    IS_WIDENED: tl.constexpr = PARTS > 1 or V_KIND == "int4"
    COMPUTED: tl.constexpr = tl.float16 if K_KIND == "f16" or IS_WIDENED else tl.bfloat16
    TILES: tl.constexpr = 1 if IS_WIDENED else PARTS
    position = length - new + oldest + tl.arange(0, ROWS) // PADDED
    row, m_row = _rows(first, oldest, new, i_kv, HEADS, GROUP, PADDED, ROWS)
    p_rows = p_q + row[:, None] * SIZE
    q = loaded_parts(p_rows, m_row, COMPUTED, SIZE, WIDTH * (PARTS // TILES), TILES)
    low = 0
    if WINDOW > 0:
        low = tl.maximum(length - new + oldest - WINDOW + 1, 0)
    end = tl.minimum(length - new + oldest + TOKENS, length)
    p_table += i_b.to(tl.int64) * table_step
    if IS_WIDENED:
        _, mean = attend_widened_keys(
            q[0], position, low, low // TILE * TILE, end, length, i_kv,
            p_k, p_v, p_k_scale, p_v_scale, p_v_zero, p_table,
            k_step, v_step, k_scale_step, v_scale_step, scale, cap,
            ROWS, SIZE, WIDTH * PARTS, PARTS, BLOCK, WINDOW, HAS_CAP, K_KIND, V_KIND, TILE, STAGES,
        )  # fmt: skip
        out = (mean,)
    else:
        _, out = attend_keys(
            q, position, low, low // TILE * TILE, end, length, i_kv,
            p_k, p_v, p_k_scale, p_v_scale, p_table,
            k_step, v_step, k_scale_step, v_scale_step, scale, cap,
            ROWS, SIZE, WIDTH, PARTS, BLOCK, WINDOW, HAS_CAP, V_KIND, TILE, STAGES,
        )  # fmt: skip
    if ROTATES_V:
        out = (rotated(out[0], ROWS, out[0].shape[1], SIZE),)
    # Found again from what is read again: kept, they would take registers in the loop.
    first = tl.load(p_first_row + i_b, volatile=True).to(tl.int32)
    row, m_row = _rows(first, oldest, new, i_kv, HEADS, GROUP, PADDED, ROWS)
    store_parts(p_out + row[:, None] * SIZE, out, m_row, SIZE, TILES)


def can_run(
    head_size: int, group: int, layout: KVLayout, capability: tuple[int, int]
) -> str | None:
    """Why there is no kernel; None: there is one. `group`: query heads of a KV head."""
    found = lacking(head_size, layout, capability)
    if found is not None:
        return found
    if layout.format.name not in FORMATS:
        return f"KV in {layout.format.name} has no kernel"
    rows = tile_for(head_size, layout.format, capability).rows
    if group > rows:
        return f"groups of {group} heads are larger than {rows}"
    return None


def prefill_attention(
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
    tile: PrefillTile | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As `paged_attention`, with q [T, H, D] dense and rotated like the K that is stored.

    `rows`: the most new tokens that a sequence has. Rows of no sequence are left as they are.
    """
    layout = pool.layout
    plan = tile or tile_for(layout.head_size, layout.format)
    _, heads, size = q.shape
    group = heads // layout.kv_heads
    padded = triton.next_power_of_2(group)
    parts = layout.scale_parts
    views = kv_views(pool, layer)
    out = torch.empty_like(q) if out is None else out
    grid = (triton.cdiv(rows, plan.rows // padded), layout.kv_heads, lengths.shape[0])
    prefill_attention_kernel[grid](
        p_q=q,
        p_k=views.k,
        p_v=views.v,
        p_k_scale=views.k_scale,
        p_v_scale=views.v_scale,
        p_v_zero=views.v_zero,
        p_first_row=first_row,
        p_lengths=lengths,
        p_table=table,
        p_out=out,
        table_step=table.stride(0),
        k_step=views.k.stride(0),
        v_step=views.v.stride(0),
        k_scale_step=views.k_scale.stride(0) if views.k_scale is not None else 0,
        v_scale_step=views.v_scale.stride(0) if views.v_scale is not None else 0,
        scale=scale,
        cap=cap or 0.0,
        HEADS=heads,
        GROUP=group,
        PADDED=padded,
        SIZE=size,
        WIDTH=triton.next_power_of_2(size // parts),
        PARTS=parts,
        BLOCK=layout.block,
        ROWS=plan.rows,
        WINDOW=window or 0,
        HAS_CAP=cap is not None,
        K_KIND=layout.format.k,
        V_KIND=layout.format.v,
        ROTATES_V=layout.format.rotates_v,
        TILE=plan.keys,
        STAGES=plan.stages,
        num_warps=plan.warps,
        maxnreg=plan.registers,
    )
    return out
