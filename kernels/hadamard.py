"""Hadamard rotation of head vectors: spreads an outlier over all dims before they are quantized.

y = H x / sqrt(P), H the Sylvester matrix of size P, the largest power of two that divides D; a head
of other size is D / P such vectors, one behind the other. Symmetric and orthonormal, so it is its
own inverse, and Q and K rotated alike keep their products.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kernels.kv_layout import rotated_dims


def hadamard(x: Tensor) -> Tensor:
    """x [..., D], returned rotated in its own shape and dtype; float32 inside."""
    size = rotated_dims(x.shape[-1])
    y = x.float()
    step = 1
    while step < size:
        first, second = torch.unflatten(y, -1, (-1, 2, step)).unbind(-2)
        y = torch.stack((first + second, first - second), -2).flatten(-3)
        step *= 2
    # A factor, as in `triton/rotation.py`: a quotient may be rounded otherwise.
    return (y * (1 / math.sqrt(size))).to(x.dtype)
