"""A weight kept in a GGUF file's own blocks."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kernels.dequantize import dequantize


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """`data`: uint8 [..., bytes of a row], `type_name`: ggml's name, `shape`: of the numbers."""

    data: Tensor
    type_name: str
    shape: tuple[int, ...]

    def __getitem__(self, index: int) -> QuantizedWeight:
        """One of the stacked: a row of a matrix, or one expert's matrix."""
        return QuantizedWeight(self.data[index], self.type_name, self.shape[1:])

    def dequantize(self) -> Tensor:
        """float32 [shape].

        Raises:
            ValueError: the type is unknown, or the bytes are not whole blocks.
        """
        return dequantize(self.data, self.type_name).view(self.shape)

    def rows(self, ids: Tensor) -> Tensor:
        """float32 [*ids.shape, row length]: the rows named, and no others are decoded."""
        return dequantize(self.data.view(self.shape[0], -1)[ids], self.type_name)
