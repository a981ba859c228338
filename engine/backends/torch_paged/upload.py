"""Brings a step's numbers to the device without waiting for it."""

from __future__ import annotations

from typing import Any

import torch


class Upload:
    """One buffer on each side. The host's may be written again once `wait` has returned."""

    def __init__(self, count: int, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self.host = torch.zeros(count, dtype=torch.int64, pin_memory=self._is_gpu)
        self.device = torch.zeros(count, dtype=torch.int64, device=device)
        event: Any = torch.cuda.Event  # torch publishes no types for it
        self._done = event() if self._is_gpu else None

    def start(self) -> None:
        """Everything that the device is told later comes after it."""
        self.device.copy_(self.host, non_blocking=self._is_gpu)
        if self._done is not None:
            self._done.record()

    def wait(self) -> None:
        if self._done is not None:
            self._done.synchronize()
