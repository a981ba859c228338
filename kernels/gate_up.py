"""The first half of a gated feed-forward network: act(norm(x) gate^T) * (norm(x) up^T).

Plain torch, the oracle of `triton/gate_up.py`. SwiGLU and GeGLU: Shazeer, arXiv 2002.05202.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional

from kernels.fused_linear import by_expert
from kernels.linear import Weight, linear
from kernels.rms_norm import rms_norm

Activation = Literal["silu", "gelu_tanh"]


def gate_up(
    x: Tensor,
    gate: Weight,
    up: Weight,
    activation: Activation,
    *,
    norm: Tensor | None = None,
    norm_offset: float = 0.0,
    eps: float = 0.0,
    experts: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """x [T, K], gate and up [I, K], norm [K] -> [T, I] in x's dtype.

    `experts` and `out` as in `fused_linear`.
    """
    seen = x if norm is None else rms_norm(x, norm, eps, norm_offset)
    if experts is None:
        gated, raised = linear(seen, gate), linear(seen, up)
    else:
        gated, raised = by_expert(seen, gate, experts), by_expert(seen, up, experts)
    found = activate(gated, activation) * raised
    return found if out is None else out.copy_(found)


def activate(x: Tensor, activation: Activation) -> Tensor:
    """SiLU x sigmoid(x), or GELU in its tanh form."""
    if activation == "silu":
        return functional.silu(x)
    return functional.gelu(x, approximate="tanh")
