"""Root mean square norm.

y = x / sqrt(mean(x^2) + eps) * (weight + offset), over the last dim.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float, offset: float = 0.0) -> Tensor:
    """x [..., N], weight [N]; float32 inside, returned in x's dtype.

    `offset` is 1 where a model keeps its weights as distances from 1 (Gemma).
    """
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (scaled * (weight.float() + offset)).to(x.dtype)


def norm_rows(
    x: Tensor,
    weight: Tensor,
    eps: float,
    offset: float = 0.0,
    *,
    rows: Tensor | None = None,
    residual: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of x [T, N], or of its rows int64 [R] alone, with `residual` added to it.

    `out` is filled where it is given.
    """
    found = rms_norm(x if rows is None else x[rows], weight, eps, offset)
    if residual is not None:
        found = residual + found
    return found if out is None else out.copy_(found)
