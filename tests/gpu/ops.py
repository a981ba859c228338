"""The ops of `kernels/` as a device runs them: its kernels, or plain torch where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kernels.dispatch import REFERENCE, TRITON, Facts, choose
from kernels.kv_pool import KVPool
from kernels.kv_store import load_kv
from kernels.weight_planes import PlaneWeight
from tests.bench.gpu.rig import Rig


def op(rig: Rig, name: str, facts: Facts) -> Callable[..., Any]:
    """Raises KernelMissing where a device lacks the kernel."""
    return choose(name, facts, rig.kernels.capability, TRITON if rig.has_kernels else REFERENCE).run


def moved_pool(rig: Rig, pool: KVPool) -> KVPool:
    return KVPool(pool.layout, pool.data.to(rig.device))


def moved_planes(rig: Rig, weight: PlaneWeight) -> PlaneWeight:
    return PlaneWeight(weight.data.to(rig.device), weight.type_name, weight.shape)


def exact_attention(
    q: Tensor, pool: KVPool, layer: int, table: Tensor, length: int, scale: float
) -> Tensor:
    """float64 on the CPU, from what is stored: q [new, H, D], not rotated, the last of `length`."""
    k, v = (one.double() for one in load_kv(pool, layer, table, length))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("thd,lhd->htl", q.double(), k) * scale
    position = torch.arange(length - len(q), length)
    scores.masked_fill_(torch.arange(length)[None, :] > position[:, None], float("-inf"))
    return torch.einsum("htl,lhd->thd", scores.softmax(-1), v)
