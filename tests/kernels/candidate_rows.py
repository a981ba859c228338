"""Rows of logits with everything that makes choosing hard, and what is right for them."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from kernels.sampling_candidates import unpacked

KINDS = ("plain", "equal", "zeros of both signs", "masked", "nan", "+inf", "nothing finite", "-nan")


def row_of(kind: str, size: int, seed: int = 0) -> Tensor:
    """float32 [size]."""
    made = torch.Generator().manual_seed(seed)
    row = torch.randn(size, generator=made) * 5
    if kind == "equal":
        row = torch.randint(0, 3, (size,), generator=made).float()
    elif kind == "zeros of both signs":
        row = torch.where(torch.rand(size, generator=made) < 0.5, 0.0, -0.0)
    elif kind == "masked":
        row[torch.rand(size, generator=made) < 0.7] = -torch.inf
        row[size // 2] = 1.0
    elif kind == "nan":
        row[size - 1] = torch.nan
    elif kind == "-nan":
        row[size // 3] = -torch.nan
    elif kind == "+inf":
        row[size // 2] = torch.inf
    elif kind == "nothing finite":
        row[:] = -torch.inf
    return row


def check(packed: Tensor, rows: list[Tensor], k: int) -> None:
    """Against a sort on the host, in Python's own numbers."""
    found = unpacked(packed.numpy())
    for index, row in enumerate(rows):
        values = row.double().tolist()
        is_fit = all(value == value and value < math.inf for value in values)
        peak = max(values)
        is_fit = is_fit and peak > -math.inf
        assert bool(found.finite[index]) == is_fit
        if not is_fit:
            continue
        order = sorted(range(len(values)), key=lambda i, of=values: (-of[i], i))[:k]
        assert found.ids[index].tolist() == order
        assert found.logits[index].tolist() == [values[i] for i in order]
        assert found.logits.dtype == np.float32
        wanted = math.log(sum(math.exp(value - peak) for value in values)) + peak
        assert abs(float(found.log_sum_exp[index]) - wanted) <= 2e-6 * max(1, abs(wanted))
