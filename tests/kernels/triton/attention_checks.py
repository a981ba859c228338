"""Attention kernels and their torch reference on the same pool, whose free bytes are NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.attention import paged_attention
from kernels.hadamard import hadamard
from tests.kernels.pools import Stored, relative

ERROR = {"f16": 2e-3, "bf16": 2e-3, "k8": 5e-3, "q8": 5e-3, "fp8": 5e-3, "k8v4": 5e-3, "q4": 5e-3}
"""Against the reference, which reads the same codes and computes in float32."""


@dataclass(frozen=True)
class Compared:
    """Both float32: what rounding the result would add is left out."""

    found: Tensor
    wanted: Tensor

    @property
    def error(self) -> float:
        return relative(self.found, self.wanted)


def rows_of(new: list[int]) -> Tensor:
    return torch.tensor([0, *new]).cumsum(0)


def queries(kept: Stored, rows: int, heads: int, seed: int = 1) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    size = kept.pool.layout.head_size
    return torch.randn(rows, heads, size, generator=made)


def turned(kept: Stored, q: Tensor) -> Tensor:
    """As attention is given it: rotated like K, numbers of bf16."""
    kind = kept.pool.layout.format
    q = hadamard(q) if kind.rotates_k else q
    return q.to(torch.bfloat16).float()


def compared(
    kernel: Callable[..., Tensor],
    kept: Stored,
    q: Tensor,
    new: list[int],
    window: int | None = None,
    cap: float | None = None,
    **options: object,
) -> Compared:
    place = (kept.pool, kept.layer, rows_of(new), kept.lengths, kept.tables)
    scale = q.shape[-1] ** -0.5
    given = turned(kept, q)
    # The reference rotates q itself, and the rotation is its own inverse.
    plain = hadamard(given) if kept.pool.layout.format.rotates_k else given
    wanted = paged_attention(plain, *place, scale, window, cap)
    return Compared(kernel(given, *place, scale, window, cap, max(new), **options), wanted)
