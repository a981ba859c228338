"""Where it is measured, and how time is taken there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from engine.backends.torch_paged.graphs import Runner
from models.ops import KernelSettings


@dataclass(frozen=True, slots=True)
class Rig:
    """A device with its kernels, or a CPU with plain torch, where nothing but the code is proven.

    `rounds`: measurements of which the median counts. `interpreted`: the capability that kernels
    are interpreted for on a CPU.
    """

    device: torch.device
    rounds: int = 20
    interpreted: tuple[int, int] | None = None

    @property
    def is_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def kernels(self) -> KernelSettings:
        if self.interpreted is not None:
            return KernelSettings(self.interpreted)
        return KernelSettings.of(self.device)

    @property
    def has_kernels(self) -> bool:
        return self.kernels.capability is not None

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16

    @property
    def name(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.is_gpu else "CPU: a dry run"

    def sync(self) -> None:
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def seconds(self, run: Callable[[], object], rounds: int | None = None) -> float:
        """Median of single runs, each to its end, after a warm-up."""
        run()
        self.sync()
        found = []
        for _ in range(rounds or self.rounds):
            started = time.perf_counter()
            run()
            self.sync()
            found.append(time.perf_counter() - started)
        return median(found)

    def device_seconds(self, run: Callable[[], object], rounds: int | None = None) -> float:
        """Mean of runs in a row by the device's own clock, so that the host runs ahead."""
        count = rounds or self.rounds
        run()
        self.sync()
        if not self.is_gpu:
            return self.seconds(run, count)
        event: Any = torch.cuda.Event
        first, last = event(enable_timing=True), event(enable_timing=True)
        first.record()
        for _ in range(count):
            run()
        last.record()
        self.sync()
        return float(first.elapsed_time(last)) / 1000 / count

    def recorded_seconds(self, run: Callable[[], object], rounds: int | None = None) -> float:
        """The same of a recording of what `run` launches."""
        runner = Runner(self.device)

        def recorded() -> None:
            run()

        runner.capture("run", recorded)
        return self.device_seconds(lambda: runner.replay("run"), rounds)

    def free_bytes(self) -> float:
        """What may be taken; infinite on a CPU, where nothing is large."""
        return 0.9 * torch.cuda.mem_get_info(self.device)[0] if self.is_gpu else float("inf")

    def answers(self) -> bool:
        """False after a kernel that went astray: nothing runs in this process then."""
        try:
            return float(torch.ones(1, device=self.device).sum()) == 1
        except RuntimeError:
            return False

    def forget(self) -> None:
        """Give freed memory back, so that the next model finds it in one piece."""
        if self.is_gpu:
            torch.cuda.empty_cache()
