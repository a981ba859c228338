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
    # Nothing is named that isn't needed any more: it would take memory.
    if experts is None:
        found = activate(linear(seen, gate), activation) * linear(seen, up)
    else:
        gated = activate(by_expert(seen, gate, experts), activation)
        found = gated * by_expert(seen, up, experts)
    return found if out is None else out.copy_(found)


def activate(x: Tensor, activation: Activation) -> Tensor:
    """SiLU x sigmoid(x), or GELU in its tanh form."""
    if activation == "silu":
        return functional.silu(x)
    return functional.gelu(x, approximate="tanh")
