"""Keys and values into and out of the paged pool, in every storage format.

What is stored is rotated where the format says so (`kv_layout.py`). Reading touches the blocks that
are named and the tokens up to the length, nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.hadamard import hadamard
from kernels.kv_codes import (
    Codes,
    dequantize,
    dequantize_groups,
    dequantize_range,
    pack_halves,
    quantize,
    quantize_groups,
    quantize_range,
    unpack_halves,
)
from kernels.kv_layout import rotated_dims
from kernels.kv_pool import KVPool
from kernels.kv_views import DTYPES, KVViews, kv_views


def store_kv(pool: KVPool, layer: int, k: Tensor, v: Tensor, slots: Tensor) -> None:
    """k and v [T, Hkv, D], slots int64 [T]: block * BS + offset each; -1 writes nothing.

    Slots that are written must differ from one another.
    """
    layout = pool.layout
    kept = slots >= 0
    slots = slots[kept]
    block, offset = slots // layout.block, slots % layout.block
    views = kv_views(pool, layer)
    _store_k(views, layout.format.k, _codes_k(k[kept].float(), layout.format.k), block, offset)
    _store_v(views, layout.format.v, _codes_v(v[kept].float(), layout.format.v), block, offset)


def load_kv(pool: KVPool, layer: int, table: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """K and V of positions 0 .. length - 1, float32 [length, Hkv, D], rotations undone.

    table int64 [N]: the sequence's blocks in order of position, enough of them.
    """
    k, v = read_stored(pool, layer, table, 0, length)
    k, v = k.transpose(0, 1), v.transpose(0, 1)
    kind = pool.layout.format
    return hadamard(k) if kind.rotates_k else k, hadamard(v) if kind.rotates_v else v


def read_stored(
    pool: KVPool, layer: int, table: Tensor, start: int, end: int
) -> tuple[Tensor, Tensor]:
    """K and V of positions start .. end - 1 as they are stored, still rotated.

    float32 [Hkv, end - start, D].
    """
    layout = pool.layout
    first = start // layout.block
    blocks = table[first : -(-end // layout.block)]
    tokens = slice(start - first * layout.block, end - first * layout.block)
    views = kv_views(pool, layer)
    k = _numbers_k(views, layout.format.k, blocks, tokens)
    return k, _numbers_v(views, layout.format.v, blocks, tokens)


def _codes_k(k: Tensor, kind: str) -> Codes:
    if kind == "int8":
        return quantize(hadamard(k), kind)
    if kind == "fp8":
        return quantize(k, kind)
    if kind == "int4":
        return quantize_groups(hadamard(k))
    return Codes(_plain(k, kind))


def _codes_v(v: Tensor, kind: str) -> Codes:
    if kind in ("int8", "fp8"):
        return quantize(v, kind)
    if kind == "int4":
        return quantize_range(hadamard(v))
    return Codes(_plain(v, kind))


def _plain(x: Tensor, kind: str) -> Tensor:
    """What f16 cannot hold becomes its largest number: an infinity would make NaN of a score."""
    dtype = DTYPES[kind]
    top = torch.finfo(dtype).max
    return (x.clamp(-top, top) if kind == "f16" else x).to(dtype)


def _store_k(views: KVViews, kind: str, codes: Codes, block: Tensor, offset: Tensor) -> None:
    values = codes.values
    if kind == "int4":
        values = pack_halves(values, rotated_dims(values.shape[-1]))
    _bits(views.k)[block, :, offset] = _bits(values)
    if views.k_scale is None or codes.scale is None:
        return
    if kind == "int4":
        views.k_scale[block, :, offset] = codes.scale
    else:
        views.k_scale[block, :, :, offset] = codes.scale


def _store_v(views: KVViews, kind: str, codes: Codes, block: Tensor, offset: Tensor) -> None:
    if kind == "int4":
        _store_nibbles(views.v, codes.values, block, offset)
    elif kind in ("int8", "fp8"):
        _bits(views.v)[block, :, :, offset] = _bits(codes.values)
    else:
        views.v[block, :, offset] = codes.values
    if views.v_scale is not None and codes.scale is not None:
        views.v_scale[block, :, :, offset] = codes.scale
    if views.v_zero is not None and codes.zero is not None:
        views.v_zero[block, :, :, offset] = codes.zero


def _store_nibbles(view: Tensor, codes: Tensor, block: Tensor, offset: Tensor) -> None:
    """view bytes [blocks, Hkv, D, BS / 2]. One half after the other: they share bytes."""
    half = view.shape[-1]
    for high in (False, True):
        chosen = (offset >= half) == high
        where = (block[chosen], slice(None), slice(None), offset[chosen] % half)
        kept = view[where] & (0x0F if high else 0xF0)
        view[where] = kept | (codes[chosen] << (4 if high else 0))


def _numbers_k(views: KVViews, kind: str, blocks: Tensor, tokens: slice) -> Tensor:
    values = _rows(views.k, blocks, tokens)
    if views.k_scale is None:
        return values.float()
    if kind == "int4":
        scale = _rows(views.k_scale, blocks, tokens)
        span = rotated_dims(2 * values.shape[-1])
        return dequantize_groups(unpack_halves(values, span), scale)
    return dequantize(values, _columns(views.k_scale, blocks, tokens))


def _numbers_v(views: KVViews, kind: str, blocks: Tensor, tokens: slice) -> Tensor:
    if views.v_scale is None:
        return _rows(views.v, blocks, tokens).float()
    scale = _columns(views.v_scale, blocks, tokens)
    if views.v_zero is None:
        return dequantize(_columns(views.v, blocks, tokens), scale)
    zero = _columns(views.v_zero, blocks, tokens)
    packed = _bits(views.v)[blocks]
    values = unpack_halves(packed, 2 * packed.shape[-1])
    values = values.permute(1, 0, 3, 2).flatten(1, 2)[:, tokens]
    return dequantize_range(values, scale, zero)


def _rows(view: Tensor, blocks: Tensor, tokens: slice) -> Tensor:
    """view [blocks, Hkv, BS, ...] as [Hkv, tokens, ...]."""
    found = _bits(view)[blocks].transpose(0, 1).flatten(1, 2)[:, tokens]
    return found.view(view.dtype)


def _columns(view: Tensor, blocks: Tensor, tokens: slice) -> Tensor:
    """view [blocks, Hkv, D, BS] as [Hkv, tokens, D]."""
    found = _bits(view)[blocks].permute(1, 0, 3, 2).flatten(1, 2)[:, tokens]
    return found.view(view.dtype)


def _bits(x: Tensor) -> Tensor:
    """fp8 as bytes: torch indexes those everywhere."""
    return x.view(torch.uint8) if x.dtype == torch.float8_e4m3fn else x
