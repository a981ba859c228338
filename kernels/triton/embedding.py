"""Rows of the embedding, scaled: one launch.

The op of `kernels/embedding.py`. A program copies one row; of a packed table it decodes 64 columns
of a few (`plane_matrix.py`), and a scale is a launch of its own.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.embedding import rounded
from kernels.linear import Weight
from kernels.triton.chosen_tokens import known_tokens
from kernels.triton.plane_matrix import plane_rows
from kernels.triton.rms_norm import DTYPES, WIDEST, warps_for
from kernels.weight_planes import PlaneWeight


@triton.jit
def embed_kernel(
    p_tokens, p_chosen, p_table, p_out, table_step, scale,
    WIDTH: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    i_t = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, PADDED)
    m = d < WIDTH
    token = tl.load(p_tokens + i_t).to(tl.int64)
    if p_chosen is not None:
        token = known_tokens(token, p_chosen, True)
    x = tl.load(p_table + token * table_step + d, mask=m, other=0.0).to(tl.float32)
    # Rounded first, as the numbers of the model's dtype that are multiplied.
    x = x.to(p_out.dtype.element_ty).to(tl.float32) * scale
    tl.store(p_out + i_t * WIDTH + d, x.to(p_out.dtype.element_ty), mask=m)


def can_run(width: int, dtype: torch.dtype, table: Weight | None) -> str | None:
    """Why there is no kernel; None: there is one."""
    if isinstance(table, PlaneWeight):
        return None if dtype in DTYPES else f"rows of {dtype} have no kernel"
    if not isinstance(table, Tensor):
        return "the embedding is not repacked into planes"
    if dtype not in DTYPES or table.dtype not in DTYPES:
        return f"an embedding of {table.dtype} has no kernel"
    return None if width <= WIDEST else f"rows of {width:,} numbers are wider than {WIDEST:,}"


def embed(
    tokens: Tensor,
    table: Tensor | PlaneWeight,
    scale: float,
    dtype: torch.dtype,
    out: Tensor | None = None,
    chosen: Tensor | None = None,
) -> Tensor:
    """As `kernels/embedding.py`; table [V, hidden] with dense rows, or packed in planes."""
    count, width = tokens.shape[0], table.shape[1]
    if out is None:
        out = torch.empty(count, width, dtype=dtype, device=tokens.device)
    if isinstance(table, PlaneWeight):
        plane_rows(table, tokens, out, chosen)
        return out if scale == 1.0 else out.mul_(rounded(scale, dtype))
    embed_kernel[(count,)](
        p_tokens=tokens,
        p_chosen=chosen,
        p_table=table,
        p_out=out,
        table_step=table.stride(0),
        scale=rounded(scale, dtype),
        WIDTH=width,
        PADDED=triton.next_power_of_2(width),
        num_warps=warps_for(width),
    )
    return out
