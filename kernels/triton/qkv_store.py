"""Bias, head norm, RoPE, Hadamard rotation, quantization and store into the pool: one launch.

The op of `kernels/qkv_store.py`. A program does ROWS heads of one token, of q, of k or of v; all of
it in float32. A token of slot -1 writes no K and V.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.kv_layout import K_GROUP, KVLayout
from kernels.kv_pool import KVPool
from kernels.kv_views import kv_views
from kernels.qkv_store import Biases, HeadNorms
from kernels.triton.codes import codes4, fp8_codes, half, int8_codes, range_codes4
from kernels.triton.limits import lacking
from kernels.triton.rotation import rotated

ROWS = 8
"""Heads a program: the K heads of most models, and a few KiB of work."""
WARPS = 4
GROUP = tl.constexpr(K_GROUP)


@triton.jit
def _loaded(p, p_bias, head, d, m):
    """float32 [ROWS, WIDTH] of a token, its bias added."""
    at = head[:, None] * 1 + d[None, :]
    x = tl.load(p + at, mask=m, other=0.0).to(tl.float32)
    if p_bias is not None:
        x += tl.load(p_bias + at, mask=m, other=0.0).to(tl.float32)
    return x


@triton.jit
def _turned(
    p, p_bias, p_weight, p_cos, p_sin, i_head, eps, offset,
    HEADS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, HALF: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Heads i_head .. of a token at `p`, normed and turned by its angles: [ROWS, WIDTH]."""
    head = i_head + tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    m = (head < HEADS)[:, None] & (d < SIZE)[None, :]
    x = _loaded(p, p_bias, head * SIZE, d, m)
    inverse = tl.full((ROWS,), 1.0, tl.float32)
    if p_weight is not None:
        inverse = tl.rsqrt(tl.sum(x * x, 1) / SIZE + eps)
        weight = tl.load(p_weight + d, mask=d < SIZE, other=0.0).to(tl.float32) + offset
        x = x * inverse[:, None] * weight[None, :]
    if HALF > 0:
        # The other dim of each pair is loaded once more: it lies in the cache.
        in_pair = d < 2 * HALF
        other = tl.where(d < HALF, d + HALF, d - HALF)
        y = _loaded(p, p_bias, head * SIZE, other, m & in_pair[None, :])
        if p_weight is not None:
            paired = tl.load(p_weight + other, mask=in_pair, other=0.0).to(tl.float32) + offset
            y = y * inverse[:, None] * paired[None, :]
        cos = tl.load(p_cos + d % HALF, mask=in_pair, other=1.0).to(tl.float32)
        sin = tl.load(p_sin + d % HALF, mask=in_pair, other=0.0).to(tl.float32)
        x = x * cos[None, :] + y * tl.where(d < HALF, -sin, sin)[None, :]
    return x


@triton.jit
def _codes8(x, PARTS: tl.constexpr, KIND: tl.constexpr):
    """Codes like x [ROWS, WIDTH] and scales [ROWS, PARTS]."""
    ROWS: tl.constexpr = x.shape[0]
    parts = tl.reshape(x, (ROWS * PARTS, x.shape[1] // PARTS))
    if KIND == "int8":
        codes, scale = int8_codes(parts)
    else:
        codes, scale = fp8_codes(parts)
    return tl.reshape(codes, x.shape), tl.reshape(scale, (ROWS, PARTS))


@triton.jit
def _store_k(
    x, p_k, p_scale, head, offset,
    HEADS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr,
    BLOCK: tl.constexpr, KIND: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """x [ROWS, WIDTH] to token `offset` of the block at `p_k`, its scales at `p_scale`."""
    d = tl.arange(0, WIDTH)
    row = head * BLOCK + offset
    part = (head[:, None] * PARTS + tl.arange(0, PARTS)[None, :]) * BLOCK + offset
    m_head = head < HEADS
    m = m_head[:, None] & (d < SIZE)[None, :]
    if KIND == "int8" or KIND == "fp8":
        codes, scale = _codes8(x, PARTS, KIND)
        tl.store(p_k + row[:, None] * SIZE + d[None, :], codes, mask=m)
        tl.store(p_scale + part, scale, mask=m_head[:, None])
    elif KIND == "int4":
        KEPT: tl.constexpr = (SIZE + GROUP - 1) // GROUP
        GROUPS: tl.constexpr = (WIDTH + GROUP - 1) // GROUP
        codes, scale = codes4(tl.reshape(x, (ROWS * GROUPS, WIDTH // GROUPS)))
        g = tl.arange(0, GROUPS)[None, :]
        m_group = m_head[:, None] & (g < KEPT)
        tl.store(p_scale + row[:, None] * KEPT + g, tl.reshape(scale, (ROWS, GROUPS)), mask=m_group)
        # Dims that are rotated together share bytes.
        R: tl.constexpr = SIZE & -SIZE
        halves = tl.reshape(codes, (ROWS * WIDTH // R, 2, R // 2))
        low, high = tl.split(tl.permute(halves, (0, 2, 1)))
        packed = tl.reshape(low | (high << 4), (ROWS, WIDTH // 2)).to(tl.uint8)
        b = tl.arange(0, WIDTH // 2)[None, :]
        m_byte = m_head[:, None] & (b < SIZE // 2)
        tl.store(p_k + row[:, None] * (SIZE // 2) + b, packed, mask=m_byte)
    else:
        numbers = half(x) if KIND == "f16" else x
        tl.store(p_k + row[:, None] * SIZE + d[None, :], numbers.to(p_k.dtype.element_ty), mask=m)


@triton.jit
def _store_v(
    x, p_v, p_scale, p_zero, head, offset,
    HEADS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr,
    BLOCK: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    d = tl.arange(0, WIDTH)
    m_head = head < HEADS
    m = m_head[:, None] & (d < SIZE)[None, :]
    column = head[:, None] * SIZE + d[None, :]
    row = head * BLOCK + offset
    part = (head[:, None] * PARTS + tl.arange(0, PARTS)[None, :]) * BLOCK + offset
    if KIND == "int8" or KIND == "fp8":
        codes, scale = _codes8(x, PARTS, KIND)
        tl.store(p_v + column * BLOCK + offset, codes, mask=m)
        tl.store(p_scale + part, scale, mask=m_head[:, None])
    elif KIND == "int4":
        m_part = tl.reshape(
            tl.broadcast_to((d < SIZE)[None, :], x.shape), (x.shape[0] * PARTS, x.shape[1] // PARTS)
        )
        codes, scale, zero = range_codes4(tl.reshape(x, m_part.shape), m_part)
        codes = tl.reshape(codes, x.shape)
        # Two tokens share a byte and are written by two programs: the bits that differ are flipped
        # in one atomic step, and nobody else changes those.
        HALF_BLOCK: tl.constexpr = BLOCK // 2
        byte = offset % HALF_BLOCK
        shift = byte % 4 * 8 + offset // HALF_BLOCK * 4
        p_word = p_v + column * (HALF_BLOCK // 4) + byte // 4
        word = tl.load(p_word, mask=m, other=0)
        tl.atomic_xor(p_word, (((word >> shift) ^ codes) & 15) << shift, mask=m, sem="relaxed")
        tl.store(p_scale + part, tl.reshape(scale, part.shape), mask=m_head[:, None])
        tl.store(p_zero + part, tl.reshape(zero, part.shape), mask=m_head[:, None])
    else:
        p_row = p_v + row[:, None] * SIZE + d[None, :]
        numbers = half(x) if KIND == "f16" else x
        tl.store(p_row, numbers.to(p_v.dtype.element_ty), mask=m)


@triton.jit(do_not_specialize_on_alignment=["p_slots"])
def store_qkv_kernel(
    p_q, p_k, p_v, q_step, k_step, v_step,
    p_q_bias, p_k_bias, p_v_bias, p_q_weight, p_k_weight, eps, offset_of_norm,
    p_cos, p_sin, p_slots, p_out,
    p_keys, p_values, p_k_scale, p_v_scale, p_v_zero,
    key_step, value_step, k_scale_step, v_scale_step,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr,
    PARTS: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr,
    K_KIND: tl.constexpr, V_KIND: tl.constexpr,
    ROTATES_K: tl.constexpr, ROTATES_V: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Steps are elements between tokens (q, k, v) and between blocks (the pool's parts)."""
    Q_GROUPS: tl.constexpr = (HEADS + ROWS - 1) // ROWS
    KV_GROUPS: tl.constexpr = (KV_HEADS + ROWS - 1) // ROWS
    i_t = tl.program_id(0).to(tl.int64)
    i_g = tl.program_id(1)
    p_cos += i_t * HALF
    p_sin += i_t * HALF
    if i_g < Q_GROUPS:
        i_head = i_g * ROWS
        x = _turned(p_q + i_t * q_step, p_q_bias, p_q_weight, p_cos, p_sin, i_head, eps,
                    offset_of_norm, HEADS, SIZE, WIDTH, HALF, ROWS)  # fmt: skip
        if ROTATES_K:
            x = rotated(x, ROWS, WIDTH, SIZE)
        head = i_head + tl.arange(0, ROWS)
        d = tl.arange(0, WIDTH)
        m = (head < HEADS)[:, None] & (d < SIZE)[None, :]
        p_rows = p_out + i_t * (HEADS * SIZE) + head[:, None] * SIZE + d[None, :]
        tl.store(p_rows, x.to(p_out.dtype.element_ty), mask=m)
        return
    slot = tl.load(p_slots + i_t)
    if slot < 0:
        return
    block, offset = slot // BLOCK, (slot % BLOCK).to(tl.int32)
    if i_g < Q_GROUPS + KV_GROUPS:
        i_head = (i_g - Q_GROUPS) * ROWS
        head = i_head + tl.arange(0, ROWS)
        x = _turned(p_k + i_t * k_step, p_k_bias, p_k_weight, p_cos, p_sin, i_head, eps,
                    offset_of_norm, KV_HEADS, SIZE, WIDTH, HALF, ROWS)  # fmt: skip
        if ROTATES_K:
            x = rotated(x, ROWS, WIDTH, SIZE)
        p_keys += block * key_step
        if p_k_scale is not None:
            p_k_scale += block * k_scale_step
        _store_k(x, p_keys, p_k_scale, head, offset,
                 KV_HEADS, SIZE, WIDTH, PARTS, BLOCK, K_KIND, ROWS)  # fmt: skip
    else:
        i_head = (i_g - Q_GROUPS - KV_GROUPS) * ROWS
        head = i_head + tl.arange(0, ROWS)
        x = _turned(p_v + i_t * v_step, p_v_bias, None, None, None, i_head, eps,
                    offset_of_norm, KV_HEADS, SIZE, WIDTH, 0, ROWS)  # fmt: skip
        if ROTATES_V:
            x = rotated(x, ROWS, WIDTH, SIZE)
        p_values += block * value_step
        if p_v_scale is not None:
            p_v_scale += block * v_scale_step
        if p_v_zero is not None:
            p_v_zero += block * v_scale_step
        _store_v(x, p_values, p_v_scale, p_v_zero, head, offset,
                 KV_HEADS, SIZE, WIDTH, PARTS, BLOCK, V_KIND)  # fmt: skip


def can_run(
    head_size: int, group: int, layout: KVLayout, capability: tuple[int, int]
) -> str | None:
    """Why there is no kernel; None: there is one, for groups of any size."""
    return lacking(head_size, layout, capability)


def store_qkv(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pool: KVPool,
    layer: int,
    slots: Tensor,
    biases: Biases | None = None,
    norms: HeadNorms | None = None,
    angles: tuple[Tensor, Tensor] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As `kernels/qkv_store.py`. q, k and v may be parts of one wider tensor; angles are dense."""
    layout = pool.layout
    tokens, heads, size = q.shape
    views = kv_views(pool, layer)
    values = views.v.view(torch.int32) if layout.format.v == "int4" else views.v
    if out is None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    cos, sin = angles or (q, q)
    groups = triton.cdiv(heads, ROWS) + 2 * triton.cdiv(layout.kv_heads, ROWS)
    store_qkv_kernel[(tokens, groups)](
        p_q=q,
        p_k=k,
        p_v=v,
        q_step=q.stride(0),
        k_step=k.stride(0),
        v_step=v.stride(0),
        p_q_bias=biases and biases.q,
        p_k_bias=biases and biases.k,
        p_v_bias=biases and biases.v,
        p_q_weight=norms and norms.q,
        p_k_weight=norms and norms.k,
        eps=norms.eps if norms else 0.0,
        offset_of_norm=norms.offset if norms else 0.0,
        p_cos=cos,
        p_sin=sin,
        p_slots=slots,
        p_out=out,
        p_keys=views.k,
        p_values=values,
        p_k_scale=views.k_scale,
        p_v_scale=views.v_scale,
        p_v_zero=views.v_zero,
        key_step=views.k.stride(0),
        value_step=values.stride(0),
        k_scale_step=views.k_scale.stride(0) if views.k_scale is not None else 0,
        v_scale_step=views.v_scale.stride(0) if views.v_scale is not None else 0,
        HEADS=heads,
        KV_HEADS=layout.kv_heads,
        SIZE=size,
        WIDTH=triton.next_power_of_2(size),
        PARTS=layout.scale_parts,
        HALF=angles[0].shape[-1] if angles else 0,
        BLOCK=layout.block,
        K_KIND=layout.format.k,
        V_KIND=layout.format.v,
        ROTATES_K=layout.format.rotates_k,
        ROTATES_V=layout.format.rotates_v,
        ROWS=ROWS,
        num_warps=WARPS,
    )
    return out
