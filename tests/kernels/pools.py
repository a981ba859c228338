"""Pools whose every unwritten number is NaN, and sequences that lie in them in shuffled blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.kv_layout import KV_FORMATS, KVLayout
from kernels.kv_pool import KVPool
from kernels.kv_store import store_kv

POISON = 0xFF
"""NaN as float32, fp16, bf16 and e4m3; an int8 or 4-bit code has a scale of NaN then."""


@dataclass(frozen=True)
class Stored:
    """Sequences in one layer of a pool. k and v [L, Hkv, D] of each; tables padded with block 0."""

    pool: KVPool
    layer: int
    k: tuple[Tensor, ...]
    v: tuple[Tensor, ...]
    tables: Tensor

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(k) for k in self.k])


def poisoned_pool(
    name: str, blocks: int, block: int = 16, kv_heads: int = 2, size: int = 64, layers: int = 2
) -> KVPool:
    layout = KVLayout(KV_FORMATS[name], layers, kv_heads, size, block)
    return KVPool(layout, torch.full((blocks, layout.record_bytes), POISON, dtype=torch.uint8))


def slots_of(table: Tensor, positions: Tensor, block: int) -> Tensor:
    return table[positions // block] * block + positions % block


def stored(
    name: str, lengths: list[int], block: int = 16, kv_heads: int = 2, size: int = 64, seed: int = 0
) -> Stored:
    """Random K and V in layer 1 of 2; blocks in random order, some of them free."""
    made = torch.Generator().manual_seed(seed)
    counts = [-(-length // block) for length in lengths]
    pool = poisoned_pool(name, sum(counts) + 4, block, kv_heads, size)
    order = torch.randperm(sum(counts) + 3, generator=made) + 1
    tables = torch.zeros(len(lengths), max(counts) + 1, dtype=torch.int64)
    keys, values, taken = [], [], 0
    for b, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        tables[b, :count] = order[taken : taken + count]
        taken += count
        k = torch.randn(length, kv_heads, size, generator=made)
        v = torch.randn(length, kv_heads, size, generator=made)
        store_kv(pool, 1, k, v, slots_of(tables[b], torch.arange(length), block))
        keys.append(k)
        values.append(v)
    return Stored(pool, 1, tuple(keys), tuple(values), tables)


def relative(found: Tensor, wanted: Tensor) -> float:
    """Distance over length, both as one long vector."""
    difference = found.double() - wanted.double()
    return float(difference.norm() / wanted.double().norm())
