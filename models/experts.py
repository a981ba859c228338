"""A mixture of experts: each token goes through the few networks that the router likes best.

As Mixtral (Jiang et al., arXiv 2401.04088) and Qwen3-MoE do it: softmax over all experts first, the
best k of it as weights, made to sum to 1 where the config says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.linear import linear
from models.config import ModelConfig
from models.feed_forward import feed_forward
from models.weights import LayerWeights, Matrix


def mixture(x: Tensor, layer: LayerWeights, config: ModelConfig) -> Tensor:
    """x [T, hidden]; returns the same shape."""
    assert layer.router is not None
    assert layer.experts_gate is not None
    assert layer.experts_up is not None
    assert layer.experts_down is not None
    shares, chosen = route(x, layer.router, config)
    out = torch.zeros_like(x)
    # In the order of the experts, so that a token's sum does not depend on its neighbours.
    for expert in sorted(set(chosen.flatten().tolist())):
        rows, place = torch.where(chosen == expert)
        part = feed_forward(
            x[rows],
            layer.experts_gate[expert],
            layer.experts_up[expert],
            layer.experts_down[expert],
            config.activation,
        )
        out.index_add_(0, rows, part * shares[rows, place, None])
    return out


def route(x: Tensor, router: Matrix, config: ModelConfig) -> tuple[Tensor, Tensor]:
    """Weights [T, k] in x's dtype and experts int64 [T, k] of each token."""
    likes = linear(x, router).float().softmax(-1)
    shares, chosen = likes.topk(config.experts_used, dim=-1)
    if config.normalizes_experts:
        shares = shares / shares.sum(-1, keepdim=True)
    return shares.to(x.dtype), chosen
