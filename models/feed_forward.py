"""The gated feed-forward network: down(act(gate x) * up x)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional

from kernels.linear import linear
from models.weights import Matrix

Activation = Literal["silu", "gelu_tanh"]


def feed_forward(
    x: Tensor, gate: Matrix, up: Matrix, down: Matrix, activation: Activation
) -> Tensor:
    """x [T, hidden]; returns the same shape."""
    return linear(activate(linear(x, gate), activation) * linear(x, up), down)


def activate(x: Tensor, activation: Activation) -> Tensor:
    """SiLU x sigmoid(x), or GELU in its tanh form."""
    if activation == "silu":
        return functional.silu(x)
    return functional.gelu(x, approximate="tanh")
