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
