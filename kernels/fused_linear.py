"""A projection with what stands around it: the norm before, the bias and the residual after.

y = norm(x) W^T + bias + residual. Plain torch, the oracle of `triton/linear.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.linear import Projection, Weight, linear
from kernels.mixed_planes import MixedPlanes
from kernels.rms_norm import rms_norm


def fused_linear(
    x: Tensor,
    weight: Projection,
    bias: Tensor | None = None,
    *,
    norm: Tensor | None = None,
    norm_offset: float = 0.0,
    eps: float = 0.0,
    residual: Tensor | None = None,
    experts: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """x [T, K], weight [N, K], bias [N], norm [K], residual [T, N] -> [T, N] in x's dtype.

    `out` is filled and returned where it is given; it may be the residual, and of another dtype.
    `experts` int64 [R], R a multiple of T: weight is [E, N, K], and row r of the results [R, N] is
    row r // (R / T) of x through matrix experts[r]. The bias is the same for all.
    """
    seen = x if norm is None else rms_norm(x, norm, eps, norm_offset)
    if experts is None:
        found = linear(seen, weight, bias)
    else:
        assert not isinstance(weight, MixedPlanes)
        found = by_expert(seen, weight, experts)
        if bias is not None:
            found = found + bias.to(found.dtype)
    if residual is not None:
        found = found + residual
    return found if out is None else out.copy_(found)


def by_expert(x: Tensor, weight: Weight, experts: Tensor) -> Tensor:
    """[R, N]: each row through the matrix of its expert."""
    rows = x.repeat_interleave(experts.shape[0] // x.shape[0], 0)
    return torch.cat(
        [
            linear(row[None], weight[expert])
            for row, expert in zip(rows, experts.tolist(), strict=True)
        ]
    )
