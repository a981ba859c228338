"""A mixture of experts: each token goes through the few networks that the router likes best.

As Mixtral (Jiang et al., arXiv 2401.04088) and Qwen3-MoE do it: softmax over all experts first, the
best k of it as weights, made to sum to 1 where the config says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.dispatch import Product
from models.config import ModelConfig
from models.feed_forward import feed_forward
from models.ops import Ops
from models.weights import LayerWeights, Matrix

FEW = 16
"""Tokens up to which every token reads its experts' matrices for itself; more share them."""


def mixture(x: Tensor, layer: LayerWeights, config: ModelConfig, ops: Ops) -> Tensor:
    """x [T, hidden], already normed; returns the same shape."""
    assert layer.router is not None
    assert layer.experts_gate is not None
    assert layer.experts_up is not None
    assert layer.experts_down is not None
    shares, chosen = route(x, layer.router, config, ops)
    if runs_on_device(x, layer, ops):
        return _on_device(x, layer.experts_gate, layer.experts_up, layer.experts_down,
                          shares, chosen, config, ops)  # fmt: skip
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
            ops,
        )
        out.index_add_(0, rows, part * shares[rows, place, None])
    return out


def runs_on_device(x: Tensor, layer: LayerWeights, ops: Ops) -> bool:
    """Whether a few tokens go through their experts without the host knowing which they are."""
    if x.shape[0] > FEW:
        return False
    gate, up, down = layer.experts_gate, layer.experts_up, layer.experts_down
    if gate is None or up is None or down is None:
        return True
    chosen = torch.empty(x.shape[0], dtype=torch.int64, device="meta")
    return ops.has_kernel("gate_up", Product(x, (gate, up), experts=chosen)) and ops.has_kernel(
        "linear", Product(x, (down,), experts=chosen)
    )


def route(x: Tensor, router: Matrix, config: ModelConfig, ops: Ops) -> tuple[Tensor, Tensor]:
    """Weights [T, k] in x's dtype and experts int64 [T, k] of each token."""
    likes = ops.linear(x, router).float().softmax(-1)
    shares, chosen = likes.topk(config.experts_used, dim=-1)
    if config.normalizes_experts:
        shares = shares / shares.sum(-1, keepdim=True)
    return shares.to(x.dtype), chosen


def _on_device(
    x: Tensor,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
    shares: Tensor,
    chosen: Tensor,
    config: ModelConfig,
    ops: Ops,
) -> Tensor:
    """Every token through its k experts, whose numbers only the device reads."""
    experts = chosen.flatten()
    inner = ops.gate_up(x, gate, up, config.activation, experts=experts)
    found = ops.linear(inner, down, experts=experts)
    return (found.view(*chosen.shape, -1) * shares.unsqueeze(-1)).sum(1)
