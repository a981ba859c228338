"""A pool's bytes with their layout."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kernels.kv_layout import KVLayout


@dataclass(frozen=True)
class KVPool:
    """`data`: uint8 [blocks, record_bytes]. Block 0 is a sentinel: no token is ever kept in it."""

    layout: KVLayout
    data: Tensor
