"""Room that a projection needs besides its result, carved out of one buffer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ALIGNMENT = 256
MOST_TILES = 65536
"""Tiles of results whose shares can be counted."""


@dataclass(frozen=True, slots=True)
class Work:
    """May be used by every projection of a pass, one after the other.

    `room`: uint8, of any content. `arrived`: int32 [MOST_TILES], zeros around each launch.
    """

    room: Tensor
    arrived: Tensor

    def take(self, *wanted: tuple[torch.dtype, tuple[int, ...]]) -> list[Tensor]:
        """Tensors of these dtypes and shapes. Raises ValueError where the room is too small."""
        found, start = [], 0
        for dtype, shape in wanted:
            size = math.prod(shape) * dtype.itemsize
            if start + size > self.room.numel():
                raise ValueError(
                    f"{start + size:,} bytes of room are needed, not {self.room.numel():,}"
                )
            found.append(self.room[start : start + size].view(dtype).view(shape))
            start += -(-size // ALIGNMENT) * ALIGNMENT
        return found


def work_for(size: int, device: torch.device) -> Work:
    """`size`: bytes of room."""
    return Work(
        torch.empty(size, dtype=torch.uint8, device=device),
        torch.zeros(MOST_TILES, dtype=torch.int32, device=device),
    )
