"""Records what a pass launches and replays it: on a CUDA device one call in place of hundreds.

What is recorded reads and writes the places it was recorded with. Elsewhere it is simply called
again, so that everything around it runs, and is tested, without a device.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch

WARM_UPS = 2
"""Runs before a recording: kernels are compiled and libraries take their room by then."""


class Runner:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._recorded: dict[Hashable, Callable[[], None]] = {}
        # All recordings share what they allocate: they run one after the other.
        self._memory: Any = None
        new_stream: Any = torch.cuda.Stream  # torch publishes no types for it
        # One for all: torch keeps the vendor's working room for each stream that ever needed it.
        self._beside = new_stream() if device.type == "cuda" else None

    def __contains__(self, key: Hashable) -> bool:
        return key in self._recorded

    def capture(self, key: Hashable, run: Callable[[], None]) -> None:
        """Record what `run` launches; it must neither wait for the device nor read from it."""
        if self._beside is None:
            self._recorded[key] = run
            return
        current = torch.cuda.current_stream()
        self._beside.wait_stream(current)
        graph = torch.cuda.CUDAGraph()
        # A recording that fails leaves its own stream current: this gives the other one back.
        with torch.cuda.stream(self._beside):
            for _ in range(WARM_UPS):
                run()
            with torch.cuda.graph(graph, pool=self._memory, stream=self._beside):
                run()
        current.wait_stream(self._beside)
        self._memory = graph.pool()
        self._recorded[key] = graph.replay

    def replay(self, key: Hashable) -> None:
        """Raises KeyError for what was not captured."""
        self._recorded[key]()
