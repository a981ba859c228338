"""y = x W^T + bias."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from kernels.quantized_weight import QuantizedWeight


def linear(x: Tensor, weight: Tensor | QuantizedWeight, bias: Tensor | None = None) -> Tensor:
    """x [..., in], weight [out, in], bias [out] -> [..., out] in x's dtype.

    A weight kept in blocks is decoded for the product and then forgotten.
    """
    matrix = weight.dequantize() if isinstance(weight, QuantizedWeight) else weight
    return functional.linear(x, matrix.to(x.dtype), None if bias is None else bias.to(x.dtype))
