"""Brings what a pass has chosen to the host, while the next pass runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrival:
    """Numbers on their way; their places are used again by the download after the next one."""

    parts: tuple[Tensor, ...]
    wait: Callable[[], None]

    def read(self) -> list[Integers]:
        """Once they are here."""
        self.wait()
        return [part.numpy().copy() for part in self.parts]


class Download:
    """For passes of at most `rows` rows with `columns` numbers each."""

    def __init__(self, rows: int, columns: int, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        size = rows * columns
        self._hosts = [
            torch.zeros(size, dtype=torch.int64, pin_memory=self._is_gpu) for _ in range(2)
        ]
        event: Any = torch.cuda.Event  # torch publishes no types for it
        self._events = [event() for _ in range(2)] if self._is_gpu else []
        self._turn = 0

    def start(self, *tensors: Tensor) -> Arrival:
        """int64, all together of at most the size above. What the device is told later comes after
        it.
        """
        self._turn = 1 - self._turn
        host, parts, first = self._hosts[self._turn], [], 0
        for tensor in tensors:
            part = host[first : first + tensor.numel()].view(tensor.shape)
            part.copy_(tensor, non_blocking=self._is_gpu)
            parts.append(part)
            first += tensor.numel()
        return Arrival(tuple(parts), self._record())

    def _record(self) -> Callable[[], None]:
        if not self._events:
            return lambda: None
        event = self._events[self._turn]
        event.record()
        synchronize: Callable[[], None] = event.synchronize
        return synchronize
