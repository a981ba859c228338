"""Compiles what a launch would run, without a device.

The op is called with tensors on `meta` under a driver that only names a target: Triton then decides
from the real shapes, strides and addresses which variant to compile. Reading a value of a meta
tensor raises, so an op that gets through waits for no device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

ARCHITECTURES = (80, 89, 90, 120)
WARP = 32


@dataclass(frozen=True)
class Launch:
    """`variant`: types and alignment of the arguments, all that a compiled kernel depends on."""

    name: str
    grid: tuple[int, ...]
    variant: str
    kernel: Any


class NoDevice:
    """A driver that names its target and does nothing."""

    def __init__(self, architecture: int) -> None:
        self._architecture = architecture

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._architecture, WARP)

    def get_current_device(self) -> int:
        """Triton caches kernels by device: one for each architecture."""
        return self._architecture

    def get_current_stream(self, device: int) -> int:
        return 0


@contextmanager
def dry_run(architecture: int) -> Iterator[list[Launch]]:
    """Kernels launched inside are compiled and listed."""
    launches: list[Launch] = []
    real = JITFunction.run

    def compiled(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = real(self, *args, grid=grid, warmup=True, **options)
        source = kernel.src
        variant = f"{source.signature} {source.constants} {source.attrs}"
        launches.append(Launch(self.__name__, tuple(grid), variant, kernel))
        return kernel

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JITFunction, "run", compiled)
        patch.setattr(driver, "_active", NoDevice(architecture))
        yield launches
