"""act(gate) * up, element by element: what follows two matrix products over many rows."""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kernels.triton.x_tiles import activated

NUMBERS = 2048
"""Of a program: 16 a thread of 4 warps."""


@triton.jit
def gated_kernel(
    p_gate, p_up, p_out, out_step, n, IS_SILU: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """gate and up dense [rows, n]."""
    i_row, i_n = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = i_n * WIDTH + tl.arange(0, WIDTH)
    gate = tl.load(p_gate + i_row * n + c, mask=c < n, other=0.0).to(tl.float32)
    up = tl.load(p_up + i_row * n + c, mask=c < n, other=0.0).to(tl.float32)
    y = activated(gate, up, IS_SILU)
    tl.store(p_out + i_row * out_step + c, y.to(p_out.dtype.element_ty), mask=c < n)


def gated(gate: Tensor, up: Tensor, is_silu: bool, out: Tensor) -> Tensor:
    """gate and up [T, I], dense, into out [T, I], which may be one of them."""
    rows, n = gate.shape
    gated_kernel[(rows, triton.cdiv(n, NUMBERS))](
        p_gate=gate,
        p_up=up,
        p_out=out,
        out_step=out.stride(0),
        n=n,
        IS_SILU=is_silu,
        WIDTH=NUMBERS,
    )
    return out
