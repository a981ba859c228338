"""A matrix whose upper and lower rows are packed as different types, for one launch.

Files mix types: many keep v in more bits than q and k.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.weight_planes import PlaneWeight


@dataclass(frozen=True, slots=True, eq=False)
class MixedPlanes:
    """Both [N, K] with the same K."""

    upper: PlaneWeight
    lower: PlaneWeight

    @property
    def parts(self) -> tuple[PlaneWeight, PlaneWeight]:
        return self.upper, self.lower

    @property
    def shape(self) -> tuple[int, int]:
        return self.upper.shape[0] + self.lower.shape[0], self.upper.shape[1]

    @property
    def type_name(self) -> str:
        return f"{self.upper.type_name} and {self.lower.type_name}"

    def dequantize(self) -> Tensor:
        """float32 [N, K]."""
        return torch.cat([one.dequantize() for one in self.parts])
