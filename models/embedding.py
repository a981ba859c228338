"""Token ids to the vectors that the first layer reads."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.quantized_weight import QuantizedWeight
from models.weights import Matrix


def embed(tokens: Tensor, table: Matrix, scale: float, dtype: torch.dtype) -> Tensor:
    """int64 [T], table [V, hidden] -> [T, hidden] in `dtype`.

    Only the rows that are asked for are decoded.
    """
    rows = table.rows(tokens) if isinstance(table, QuantizedWeight) else table[tokens]
    rows = rows.to(dtype)
    if scale == 1.0:
        return rows
    # Gemma was trained with the scale rounded to the model's dtype.
    return rows * torch.tensor(scale, dtype=dtype, device=rows.device)
