"""Arguments of the ops as tensors with shapes and no numbers, in the shapes of an 8B model."""

from __future__ import annotations

import torch
from torch import Tensor
from triton.runtime import driver

from kernels.kv_layout import KV_FORMATS, KVLayout
from kernels.kv_pool import KVPool
from kernels.qkv_store import HeadNorms
from kernels.tiles import splitting_for, tile_for
from kernels.triton.decode_attention import decode_attention
from kernels.triton.embedding import embed
from kernels.triton.prefill_attention import prefill_attention
from kernels.triton.qkv_store import store_qkv
from kernels.triton.sampling_candidates import best_candidates
from kernels.triton.token_choice import choose_tokens
from kernels.weight_planes import empty_planes

HEADS, KV_HEADS = 32, 8
VOCAB, HIDDEN = 151_936, 4096
CANDIDATES = 64


def tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def integers(*shape: int) -> Tensor:
    return tensor(*shape, dtype=torch.int64)


def pool(name: str, size: int) -> KVPool:
    layout = KVLayout(KV_FORMATS[name], 2, KV_HEADS, size)
    return KVPool(layout, tensor(64, layout.record_bytes, dtype=torch.uint8))


def capability() -> tuple[int, int]:
    """Of the device that is compiled for."""
    major, minor = divmod(driver.active.get_current_target().arch, 10)
    return major, minor


def store(name: str, size: int, tokens: int = 5) -> Tensor:
    """q, k and v as parts of one projection, with norms and angles."""
    wide = tensor(tokens, (HEADS + 2 * KV_HEADS) * size).unflatten(1, (-1, size))
    q, k, v = wide.split([HEADS, KV_HEADS, KV_HEADS], 1)
    norms = HeadNorms(tensor(size), tensor(size), 1e-6)
    angle = tensor(tokens, size // 2, dtype=torch.float32)
    slots = integers(tokens)
    return store_qkv(q, k, v, pool(name, size), 1, slots, None, norms, (angle, angle))


def decode(
    name: str, size: int, batch: int = 5, rows: int = 1, window: int | None = None
) -> Tensor:
    q = tensor(batch * rows, HEADS, size)
    place = (pool(name, size), 1, integers(batch + 1), integers(batch), integers(batch, 65))
    plan = splitting_for(size, KV_FORMATS[name], rows, capability())
    return decode_attention(q, *place, size**-0.5, window, rows=rows, splitting=plan)


def prefill(
    name: str,
    size: int,
    tokens: int = 512,
    window: int | None = None,
    cap: float | None = None,
) -> Tensor:
    q = tensor(tokens, HEADS, size)
    place = (pool(name, size), 1, integers(2), integers(1), integers(1, 65))
    tile = tile_for(size, KV_FORMATS[name], capability())
    return prefill_attention(q, *place, size**-0.5, window, cap, rows=tokens, tile=tile)


def embedding(kind: str, tokens: int = 8) -> Tensor:
    """Of tokens that may stand for chosen ones."""
    shape = VOCAB, HIDDEN
    table = tensor(*shape) if kind == "bf16" else empty_planes(kind, shape, torch.device("meta"))
    return embed(integers(tokens), table, 1.0, torch.bfloat16, chosen=integers(tokens))


def candidates(rows: int = 8) -> Tensor:
    return best_candidates(tensor(rows, VOCAB, dtype=torch.float32), VOCAB, CANDIDATES)


def choice(rows: int = 8) -> Tensor:
    rules = tensor(rows, 5, dtype=torch.float64)
    return choose_tokens(integers(rows, CANDIDATES + 1), rules, out=integers(rows))
