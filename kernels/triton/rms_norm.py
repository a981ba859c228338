"""Root mean square norm of whole rows, gathered first or added to a residual: one launch.

The op of `kernels/rms_norm.py`. A program does one row in float32.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDEST = 16384
"""Numbers of a row that the registers of a program hold: 32 a thread of 16 warps."""
NUMBERS_PER_WARP = 1024
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit(do_not_specialize_on_alignment=["p_rows"])
def norm_rows_kernel(
    p_x, p_rows, p_weight, p_residual, p_out, x_step, residual_step, out_step, eps, offset,
    WIDTH: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Steps are elements between rows. `p_rows`: which row of x a program takes; None: its own."""
    i_out = tl.program_id(0).to(tl.int64)
    i_x = i_out
    if p_rows is not None:
        i_x = tl.load(p_rows + i_out)
    d = tl.arange(0, PADDED)
    m = d < WIDTH
    x = tl.load(p_x + i_x * x_step + d, mask=m, other=0.0).to(tl.float32)
    weight = tl.load(p_weight + d, mask=m, other=0.0).to(tl.float32) + offset
    y = x * tl.rsqrt(tl.sum(x * x, 0) / WIDTH + eps) * weight
    if p_residual is not None:
        # Rounded as if it had been stored in between.
        y = y.to(p_x.dtype.element_ty).to(tl.float32)
        y += tl.load(p_residual + i_out * residual_step + d, mask=m, other=0.0).to(tl.float32)
    tl.store(p_out + i_out * out_step + d, y.to(p_out.dtype.element_ty), mask=m)


def can_run(width: int, dtype: torch.dtype, table: object = None) -> str | None:
    """Why there is no kernel; None: there is one."""
    if dtype not in DTYPES:
        return f"rows of {dtype} have no kernel"
    return None if width <= WIDEST else f"rows of {width:,} numbers are wider than {WIDEST:,}"


def warps_for(width: int) -> int:
    """From 1 to 16."""
    return int(min(max(triton.next_power_of_2(width) // NUMBERS_PER_WARP, 1), 16))


def norm_rows(
    x: Tensor,
    weight: Tensor,
    eps: float,
    offset: float = 0.0,
    *,
    rows: Tensor | None = None,
    residual: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As `kernels/rms_norm.py`; rows are dense, steps between them any."""
    count = x.shape[0] if rows is None else rows.shape[0]
    width = x.shape[1]
    if out is None:
        out = torch.empty(count, width, dtype=x.dtype, device=x.device)
    if count == 0:
        return out
    norm_rows_kernel[(count,)](
        p_x=x,
        p_rows=rows,
        p_weight=weight,
        p_residual=residual,
        p_out=out,
        x_step=x.stride(0),
        residual_step=0 if residual is None else residual.stride(0),
        out_step=out.stride(0),
        eps=eps,
        offset=offset,
        WIDTH=width,
        PADDED=triton.next_power_of_2(width),
        num_warps=warps_for(width),
    )
    return out
