"""A few rows through one projection, with the norm before and the sum after it: one launch.

The op of `kernels/fused_linear.py` for up to 16 rows. A row's result is the same whatever rows
stand beside it.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from kernels.linear import Projection, Weight
from kernels.mixed_planes import MixedPlanes
from kernels.triton.dense_linear import dense_linear_kernel
from kernels.triton.mixed_linear import mixed_linear_kernel
from kernels.triton.packed_linear import packed_linear_kernel
from kernels.triton.plane_arguments import mixed_arguments, plane_arguments
from kernels.triton.shares import PROGRAMS, shares_for
from kernels.triton.work import Work, work_for
from kernels.weight_planes import PlaneWeight

ROWS = 8
"""Of x that a program takes: the columns of the smallest matrix instruction."""
MOST_ROWS = 16
"""Beyond, every program would read the weight a third time."""
EXPERTS = 8
"""Matrices that a token goes through, for the number of shares, which may not depend on rows."""
MOST_SHARED_ROWS = 128
"""With experts: what there is room for. More take a launch for each so many."""
DENSE_DTYPES = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class LinearTile:
    """`rows` of the weight a program does; `columns` of a step of its loop; `registers` that a
    thread may have. Left to itself the assembler saves them to let in more programs than a matrix
    has, and spills.
    """

    rows: int
    columns: int = 128
    warps: int = 2
    stages: int = 3
    registers: int = 168


PACKED = LinearTile(rows=64, columns=128, stages=3)
"""A tenth fewer instructions than steps of 64 columns; 256 leave no registers. 128 registers spill
of 8 bits. A processor has those of 6 such programs, and gets 4 of most matrices (`PROGRAMS`).
"""
PACKED_PAIR = LinearTile(rows=64, columns=64, stages=4)
"""Two weights at once: steps of 128 columns spill."""
PACKED_NORMED = LinearTile(rows=64, columns=128, stages=3, registers=192)
"""With a norm to fold, and of two types in one launch, 168 registers spill."""
DENSE = LinearTile(rows=32, columns=128, warps=2, stages=4)


@dataclass(frozen=True, slots=True)
class Norm:
    """Of the rows before the projection, as `rms_norm` takes it."""

    weight: Tensor
    offset: float
    eps: float


def room_bytes() -> int:
    """Of `Work` that is enough for every call here and in `gate_up.py`."""
    columns = max(MOST_ROWS, MOST_SHARED_ROWS // EXPERTS)
    return PROGRAMS * (2 * max(PACKED.rows, DENSE.rows) + 1) * columns * torch.float32.itemsize


def can_run(
    x: Tensor,
    weight: Projection,
    *,
    norm: Tensor | None = None,
    experts: Tensor | None = None,
) -> str | None:
    """Why there is no kernel for this; None: there is one."""
    rows = 1 if experts is not None else x.shape[0]
    if rows > MOST_ROWS:
        return f"{rows} rows are more than {MOST_ROWS}"
    if x.stride(-1) != 1 or x.data_ptr() % 16 or x.stride(0) % 8:
        return "rows of x do not begin at multiples of 16 bytes"
    if norm is not None and x.dtype != torch.bfloat16:
        return f"the norm can't be folded in {x.dtype}, which could overflow"
    if isinstance(weight, PlaneWeight | MixedPlanes):
        return _can_run_packed(x, weight)
    if not isinstance(weight, Tensor):
        return f"{weight.type_name} is not repacked into planes"
    if x.dtype not in DENSE_DTYPES or weight.dtype != x.dtype:
        return f"x is {x.dtype} and the weight {weight.dtype}"
    if weight.stride(-1) != 1 or weight.stride(-2) % 8:
        return "rows of the weight do not begin at multiples of 16 bytes"
    return None


def _can_run_packed(x: Tensor, weight: PlaneWeight | MixedPlanes) -> str | None:
    if x.dtype != torch.bfloat16:
        return f"packed weights take rows of bfloat16, not {x.dtype}"
    if weight.shape[-1] % 32:
        return f"{weight.shape[-1]} columns are no multiple of 32"
    return None


def fused_linear(
    x: Tensor,
    weight: Projection,
    bias: Tensor | None = None,
    *,
    norm: Tensor | None = None,
    norm_offset: float = 0.0,
    eps: float = 0.0,
    residual: Tensor | None = None,
    experts: Tensor | None = None,
    out: Tensor | None = None,
    work: Work | None = None,
    tile: LinearTile | None = None,
) -> Tensor:
    """As `kernels/fused_linear.py`, for what `can_run` allows. `residual` may be `out`.

    With `out` and `work` given nothing is allocated.
    """
    rows = x.shape[0] if experts is None else experts.shape[0]
    if out is None:
        out = torch.empty(rows, weight.shape[-2], dtype=x.dtype, device=x.device)
    folded = None if norm is None else Norm(norm, norm_offset, eps)
    launch(x, weight, None, bias, folded, residual, experts, out, work, tile)
    return out


def launch(
    x: Tensor,
    weight: Projection,
    up: Weight | None,
    bias: Tensor | None,
    norm: Norm | None,
    residual: Tensor | None,
    experts: Tensor | None,
    out: Tensor,
    work: Work | None,
    tile: LinearTile | None,
    is_silu: bool = False,
) -> None:
    """Of both ops: with `up` the results are act(x weight) * (x up)."""
    if out.numel() == 0:
        return
    rows = out.shape[0]
    if experts is not None and rows > MOST_SHARED_ROWS:
        for some, seen in _pieces(rows, rows // x.shape[0]):
            added = None if residual is None else residual[some]
            given = x[seen], weight, up, bias, norm, added, experts[some], out[some]
            launch(*given, work, tile, is_silu)
        return
    plan = tile or tile_of(weight, up is not None, norm is not None)
    n, k = weight.shape[-2:]
    parts = weight.parts if isinstance(weight, MixedPlanes) else (weight,)
    tiles = sum(triton.cdiv(one.shape[-2], plan.rows) for one in parts)
    steps = triton.cdiv(k, plan.columns)
    if experts is None:
        lines, shares = triton.cdiv(rows, ROWS), shares_for(tiles, steps)
    else:
        lines, shares = rows, shares_for(tiles * EXPERTS, steps)
    if shares > 1 and work is None:
        work = work_for(room_bytes(), x.device)
    shared = {
        "p_x": x,
        "p_norm": None if norm is None else norm.weight,
        "p_bias": bias,
        "p_residual": residual,
        "p_out": out,
        "p_room": None if work is None else work.room.view(torch.float32),
        "p_arrived": None if work is None else work.arrived,
        "x_step": x.stride(0),
        "residual_step": 0 if residual is None else residual.stride(0),
        "out_step": out.stride(0),
        "k": k,
        "tokens": rows if experts is None else 1,
        "eps": 0.0 if norm is None else norm.eps,
        "offset": 0.0 if norm is None else norm.offset,
        "ROWS": ROWS,
        "BN": plan.rows,
        "BK": plan.columns,
        "SHARES": shares,
        "EVEN": k % plan.columns == 0,
        "STAGES": plan.stages,
        "num_warps": plan.warps,
        "maxnreg": plan.registers,
    }
    grid = lines, tiles, shares
    if isinstance(weight, MixedPlanes):
        mixed_linear_kernel[grid](**shared, **mixed_arguments(weight))
        return
    shared |= {
        "p_experts": experts,
        "n": n,
        "repeats": 1 if experts is None else rows // x.shape[0],
        "IS_SILU": is_silu,
        "KEPT": ROWS if experts is None else 1,
    }
    if isinstance(weight, PlaneWeight):
        packed_linear_kernel[grid](
            **shared,
            **plane_arguments(weight),
            p_words_up=up.data if isinstance(up, PlaneWeight) else None,
            words_step=weight.data.stride(0) if experts is not None else 0,
        )
    else:
        assert isinstance(weight, Tensor)
        dense_linear_kernel[grid](
            **shared,
            p_w=weight,
            p_w_up=up,
            matrix_step=weight.stride(0) if experts is not None else 0,
            w_step=weight.stride(-2),
        )


def _pieces(rows: int, repeats: int) -> Iterator[tuple[slice, slice]]:
    """Of results, and of the rows of x that stand for `repeats` of them each."""
    step = max(MOST_SHARED_ROWS // repeats, 1)
    for first in range(0, rows // repeats, step):
        yield slice(first * repeats, (first + step) * repeats), slice(first, first + step)


def tile_of(weight: Projection, is_pair: bool, has_norm: bool) -> LinearTile:
    if isinstance(weight, Tensor):
        return DENSE
    if is_pair:
        return PACKED_PAIR
    return PACKED_NORMED if has_norm or isinstance(weight, MixedPlanes) else PACKED
