"""Token ids to the vectors that the first layer reads: y = scale * table[token]."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.linear import Weight


def embed(
    tokens: Tensor,
    table: Weight,
    scale: float,
    dtype: torch.dtype,
    out: Tensor | None = None,
    chosen: Tensor | None = None,
) -> Tensor:
    """int64 [T], table [V, hidden] -> [T, hidden] in `dtype`; `out` is filled where it is given.

    With `chosen` int64 [N], tokens that the device chose itself, t < 0 stands for chosen[-1 - t].
    Only the rows that are asked for are decoded.
    """
    if chosen is not None:
        tokens = torch.where(tokens < 0, chosen[(-1 - tokens).clamp(min=0)], tokens)
    rows = table[tokens] if isinstance(table, Tensor) else table.rows(tokens)
    rows = rows.to(dtype)
    if scale != 1.0:
        rows = rows * rounded(scale, dtype)
    return rows if out is None else out.copy_(rows)


def rounded(scale: float, dtype: torch.dtype) -> float:
    """Gemma was trained with the scale rounded to the model's dtype."""
    return float(torch.tensor(scale, dtype=dtype))
