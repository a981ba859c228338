"""A few rows through gate and up of a gated network, and their product: one launch.

The op of `kernels/gate_up.py`, on the kernels of `linear.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.gate_up import Activation
from kernels.linear import Weight
from kernels.triton import linear
from kernels.triton.linear import LinearTile, Norm, launch
from kernels.triton.work import Work
from kernels.weight_planes import PlaneWeight


def can_run(
    x: Tensor,
    gate: Weight,
    up: Weight,
    *,
    norm: Tensor | None = None,
    experts: Tensor | None = None,
) -> str | None:
    """Why there is no kernel for this; None: there is one."""
    if isinstance(gate, PlaneWeight) and isinstance(up, PlaneWeight):
        if gate.type_name != up.type_name:
            return f"gate is {gate.type_name} and up {up.type_name}"
    elif type(gate) is not type(up):
        return "only one of gate and up is packed"
    if isinstance(gate, Tensor) and isinstance(up, Tensor) and gate.stride() != up.stride():
        return "gate and up lie differently"
    return linear.can_run(x, gate, norm=norm, experts=experts)


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
    work: Work | None = None,
    tile: LinearTile | None = None,
) -> Tensor:
    """As `kernels/gate_up.py`, for what `can_run` allows.

    With `out` and `work` given nothing is allocated.
    """
    rows = x.shape[0] if experts is None else experts.shape[0]
    if out is None:
        out = torch.empty(rows, gate.shape[-2], dtype=x.dtype, device=x.device)
    folded = None if norm is None else Norm(norm, norm_offset, eps)
    is_silu = activation == "silu"
    launch(x, gate, up, None, folded, None, experts, out, work, tile, is_silu)
    return out
