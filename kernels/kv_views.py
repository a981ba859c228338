"""Typed views of a layer's parts inside a pool: nothing is copied, what is written lands in it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.kv_layout import K_GROUP, Part
from kernels.kv_pool import KVPool

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "int8": torch.int8,
    "fp8": torch.float8_e4m3fn,
    "int4": torch.uint8,
}


@dataclass(frozen=True, slots=True)
class KVViews:
    """Shapes as in `kv_layout.py` with the blocks in front; parts of size 0 are None."""

    k: Tensor
    v: Tensor
    k_scale: Tensor | None
    v_scale: Tensor | None
    v_zero: Tensor | None


def kv_views(pool: KVPool, layer: int) -> KVViews:
    """Of the pool's layer; `layer` counts inside the pool."""
    layout = pool.layout
    parts, kind = layout.parts[layer], layout.format
    heads, block, size = layout.kv_heads, layout.block, layout.head_size
    of_k = (block, -(-size // K_GROUP)) if kind.k == "int4" else (layout.scale_parts, block)
    return KVViews(
        k=_view(pool, parts.k, DTYPES[kind.k], _k_shape(kind.k, heads, block, size)),
        v=_view(pool, parts.v, DTYPES[kind.v], _v_shape(kind.v, heads, block, size)),
        k_scale=_scales(pool, parts.k_scale, (heads, *of_k)),
        v_scale=_scales(pool, parts.v_scale, (heads, layout.scale_parts, block)),
        v_zero=_scales(pool, parts.v_zero, (heads, layout.scale_parts, block)),
    )


def _k_shape(kind: str, heads: int, block: int, size: int) -> tuple[int, ...]:
    return (heads, block, size // 2 if kind == "int4" else size)


def _v_shape(kind: str, heads: int, block: int, size: int) -> tuple[int, ...]:
    if kind == "int4":
        return (heads, size, block // 2)
    if kind in ("int8", "fp8"):
        return (heads, size, block)
    return (heads, block, size)


def _scales(pool: KVPool, part: Part, shape: tuple[int, ...]) -> Tensor | None:
    return _view(pool, part, torch.float16, shape) if part.size else None


def _view(pool: KVPool, part: Part, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    values = pool.data[:, part.start : part.end].view(dtype)
    return torch.unflatten(values, 1, shape)
