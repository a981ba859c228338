"""What the device can do at best, measured in the same run as everything else."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from tests.bench.gpu.rig import Rig

GIB = 2**30


def _memory(rig: Rig) -> torch.Tensor:
    """Far more than any cache holds."""
    size = 4 * GIB if rig.is_gpu else 2**20
    return torch.ones(size // 4, dtype=torch.float32, device=rig.device)


def _copy(rig: Rig) -> float:
    source = _memory(rig)
    target = torch.empty_like(source)
    return 2 * source.nbytes / rig.device_seconds(lambda: target.copy_(source))


def _sum(rig: Rig) -> float:
    source = _memory(rig)
    return source.nbytes / rig.device_seconds(lambda: torch.sum(source))


def _read(rig: Rig) -> float:
    """By a kernel of our own, if there is a device for it."""
    if not rig.is_gpu:
        return math.nan
    from tests.bench.gpu.read_kernel import read_all

    source = _memory(rig)
    return source.nbytes / rig.device_seconds(lambda: read_all(source))


def _matrix(rig: Rig) -> float:
    """On random numbers: zeros draw less power and run faster."""
    n = 8192 if rig.is_gpu else 64
    a = torch.randn(n, n, device=rig.device).to(rig.dtype)
    b, out = a.T.contiguous(), torch.empty_like(a)
    return 2 * n**3 / rig.device_seconds(lambda: torch.mm(a, b, out=out), 10)


def _launch(rig: Rig) -> float:
    count = 500 if rig.is_gpu else 5
    x = torch.zeros(1, device=rig.device)

    def run() -> None:
        for _ in range(count):
            x.add_(1)

    return rig.recorded_seconds(run) / count


CEILINGS: dict[str, Callable[[Rig], float]] = {
    "copy_bytes_per_s": _copy,
    "sum_bytes_per_s": _sum,
    "read_bytes_per_s": _read,
    "matrix_operations_per_s": _matrix,
    "launch_s": _launch,
}
"""Bytes a second of a copy (read and written) and of reading alone, operations a second of bf16
products, seconds of a launch in a recording.
"""
READINGS = ("sum_bytes_per_s", "read_bytes_per_s")
"""Of which the faster one is the ceiling."""
