"""Reading columns of the few rows that a projection is made of, with the norm before it folded in.

RMSNorm is x * weight / rms: the weight multiplies while a tile is read, and 1 / rms multiplies the
projection's results, as it is one number a row. Its squares are summed up on the way.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

FAR = tl.constexpr(80.0)
"""exp(80) is finite in float32, and 1 / (1 + exp(80)) as good as 0."""


@triton.jit
def load_x(
    p_x, p_norm, squares, start, x_step, tokens, k, offset,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, HAS_NORM: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Columns from `start` on, [COLUMNS, ROWS] in x's dtype, and `squares` with theirs added.

    Zeros beyond the rows and the columns.
    """
    t = tl.arange(0, ROWS)
    c = start + tl.arange(0, COLUMNS)
    m = (t < tokens)[None, :] if EVEN else (t < tokens)[None, :] & (c < k)[:, None]
    x = tl.load(p_x + t[None, :].to(tl.int64) * x_step + c[:, None], mask=m, other=0.0)
    if HAS_NORM:
        norm = tl.load(p_norm + c) if EVEN else tl.load(p_norm + c, mask=c < k, other=0.0)
        wide = x.to(tl.float32)
        squares += wide * wide
        x = (wide * (norm.to(tl.float32) + offset)[:, None]).to(x.dtype)
    return x, squares


@triton.jit
def activated(gate, up, IS_SILU: tl.constexpr):
    """float32 in and out; GELU in its tanh form."""
    if IS_SILU:
        return gate / (1 + tl.exp(tl.minimum(-gate, FAR))) * up
    # tanh z = 1 - 2 / (exp(2 z) + 1)
    z = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    return gate * (1 - 1 / (tl.exp(tl.minimum(2 * z, FAR)) + 1)) * up
