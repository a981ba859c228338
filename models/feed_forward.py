"""The gated feed-forward network: down(act(gate x) * up x)."""

from __future__ import annotations

from torch import Tensor

from kernels.gate_up import Activation
from models.ops import Norm, Ops
from models.weights import Matrix
from models.workspace import ALLOCATED, Workspace


def feed_forward(
    x: Tensor,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
    activation: Activation,
    ops: Ops,
    norm: Norm | None = None,
    residual: Tensor | None = None,
    out: Tensor | None = None,
    room: Workspace = ALLOCATED,
) -> Tensor:
    """x [T, hidden], `norm` taken of it first; returns the same shape, `residual` added."""
    thought = ops.gate_up(x, gate, up, activation, norm=norm, out=room.inner)
    return ops.linear(thought, down, residual=residual, out=out)
