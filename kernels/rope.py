"""Rotary position embedding, NeoX order.

Dims i and i + R/2 of a head form a pair that is turned by the angle of its position; dims from R on
stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [T, H, D], cos and sin [T, R/2] with R <= D; float32 inside, returned in x's dtype."""
    half = cos.shape[-1]
    first, second, rest = x.split_with_sizes((half, half, x.shape[-1] - 2 * half), -1)
    first, second = first.float(), second.float()
    cos, sin = cos.float().unsqueeze(1), sin.float().unsqueeze(1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
    return torch.cat((turned.to(x.dtype), rest), -1)
