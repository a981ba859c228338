"""Many rows through a projection: the vendor's matrix product over a dense matrix.

The ops of `kernels/fused_linear.py` and `kernels/gate_up.py`. A packed weight is decoded into room
that every matrix shares: for 512 rows and more that is a small part of the product.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.gate_up import Activation
from kernels.linear import Projection, Weight
from kernels.mixed_planes import MixedPlanes
from kernels.triton.gated import gated
from kernels.triton.plane_matrix import plane_matrix
from kernels.triton.rms_norm import norm_rows
from kernels.triton.work import ALIGNMENT, Work, work_for
from kernels.weight_planes import PlaneWeight

DTYPES = (torch.bfloat16, torch.float16)


def can_run(
    x: Tensor, *weights: Projection, experts: Tensor | None = None, out: Tensor | None = None
) -> str | None:
    """Why there is no product for this; None: there is one."""
    if experts is not None:
        return "rows with experts of their own have no common matrix"
    if x.dtype not in DTYPES:
        return f"rows of {x.dtype} have no kernel"
    if out is not None and out.dtype != x.dtype:
        return f"results in {out.dtype} of rows in {x.dtype}"
    for weight in weights:
        if isinstance(weight, Tensor) and weight.dtype != x.dtype:
            return f"x is {x.dtype} and the weight {weight.dtype}"
        if not isinstance(weight, Tensor | PlaneWeight | MixedPlanes):
            return f"{weight.type_name} is not repacked into planes"
    return None


def room_bytes(rows: int, n: int, k: int, is_gated: bool, is_packed: bool) -> int:
    """Of `Work` for a call with a norm: normed rows, products of the gate, the decoded matrix."""
    numbers = rows * k + (rows * n if is_gated else 0) + (n * k if is_packed else 0)
    return numbers * torch.bfloat16.itemsize + 3 * ALIGNMENT


def fused_linear(
    x: Tensor,
    weight: Projection,
    bias: Tensor | None = None,
    *,
    norm: Tensor | None = None,
    norm_offset: float = 0.0,
    eps: float = 0.0,
    residual: Tensor | None = None,
    out: Tensor | None = None,
    work: Work | None = None,
) -> Tensor:
    """As `kernels/fused_linear.py`. With `out` and `work` given nothing is allocated."""
    rows, k = x.shape
    n = weight.shape[0]
    if out is None:
        out = torch.empty(rows, n, dtype=x.dtype, device=x.device)
    is_packed = not isinstance(weight, Tensor)
    work = work or work_for(room_bytes(rows, n, k, False, is_packed), x.device)
    room, matrix = work.take((x.dtype, (rows, k)), (x.dtype, (n if is_packed else 0, k)))
    seen = x if norm is None else norm_rows(x, norm, eps, norm_offset, out=room)
    start = 0
    for part in weight.parts if isinstance(weight, MixedPlanes) else (weight,):
        stop = start + part.shape[0]
        dense = (
            part if isinstance(part, Tensor) else plane_matrix(_planes(part), matrix[start:stop])
        )
        if residual is not None:
            torch.addmm(residual[:, start:stop], seen, dense.T, out=out[:, start:stop])
        else:
            torch.mm(seen, dense.T, out=out[:, start:stop])
        start = stop
    return out if bias is None else out.add_(bias)


def gate_up(
    x: Tensor,
    gate: Weight,
    up: Weight,
    activation: Activation,
    *,
    norm: Tensor | None = None,
    norm_offset: float = 0.0,
    eps: float = 0.0,
    out: Tensor | None = None,
    work: Work | None = None,
) -> Tensor:
    """As `kernels/gate_up.py`. With `out` (dense) and `work` given nothing is allocated."""
    rows, k = x.shape
    n = gate.shape[0]
    if out is None:
        out = torch.empty(rows, n, dtype=x.dtype, device=x.device)
    is_packed = isinstance(gate, PlaneWeight) or isinstance(up, PlaneWeight)
    work = work or work_for(room_bytes(rows, n, k, True, is_packed), x.device)
    room, opened, matrix = work.take(
        (x.dtype, (rows, k)), (x.dtype, (rows, n)), (x.dtype, (n if is_packed else 0, k))
    )
    seen = x if norm is None else norm_rows(x, norm, eps, norm_offset, out=room)
    for weight, product in ((gate, opened), (up, out)):
        dense = weight if isinstance(weight, Tensor) else plane_matrix(_planes(weight), matrix)
        torch.mm(seen, dense.T, out=product)
    return gated(opened, out, activation == "silu", out)


def _planes(weight: Weight) -> PlaneWeight:
    assert isinstance(weight, PlaneWeight)
    return weight
