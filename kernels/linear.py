"""y = x W^T + bias."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from kernels.mixed_planes import MixedPlanes
from kernels.quantized_weight import QuantizedWeight
from kernels.weight_planes import PlaneWeight

Weight = Tensor | QuantizedWeight | PlaneWeight
Projection = Weight | MixedPlanes
"""What rows go through as a whole: no stack of experts, whose matrices are taken out one by one."""


def linear(x: Tensor, weight: Projection, bias: Tensor | None = None) -> Tensor:
    """x [..., in], weight [out, in], bias [out] -> [..., out] in x's dtype.

    A packed weight is decoded for the product and then forgotten.
    """
    matrix = weight if isinstance(weight, Tensor) else weight.dequantize()
    return functional.linear(x, matrix.to(x.dtype), None if bias is None else bias.to(x.dtype))
