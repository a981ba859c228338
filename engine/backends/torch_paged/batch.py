"""Rows of the engine as the input of one pass of the decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.backends.base import Row
from engine.backends.torch_paged.held import Held, Run, Span
from models.model_input import ModelInput

Integers = npt.NDArray[np.int64]


def model_input(
    rows: Sequence[Row], held: Sequence[Held], spans: Sequence[Span], device: torch.device
) -> ModelInput:
    """`held[i]` has the blocks for rows[i], its length is that before them.

    Everything goes to the device in one copy.
    """
    counts = np.array([len(row.ids) for row in rows])
    first_row = np.concatenate([[0], counts.cumsum()])
    tables = [_table([one.runs[g] for one in held]) for g in range(len(spans))]
    positions = [np.arange(row.start, row.start + len(row.ids)) for row in rows]
    arrays = [
        np.concatenate([np.array(row.ids) for row in rows]),
        np.concatenate(positions),
        first_row,
        np.array([row.start for row in rows]) + counts,
        wanted_rows(rows, first_row.tolist()),
        *(_slots(table, positions, span) for table, span in zip(tables, spans, strict=True)),
        *tables,
    ]
    parts = _on_device(arrays, device)
    groups = len(spans)
    return ModelInput(
        tokens=parts[0],
        positions=parts[1],
        first_row=parts[2],
        lengths=parts[3],
        wanted=parts[4],
        slots=tuple(parts[5 : 5 + groups]),
        tables=tuple(parts[5 + groups :]),
        new=tuple(counts.tolist()),
    )


def score_places(rows: Sequence[Row]) -> list[range]:
    """Which of the pass's scores belong to each row."""
    places, start = [], 0
    for row in rows:
        count = 0 if not row.wants_scores else len(row.ids) if row.wants_all else 1
        places.append(range(start, start + count))
        start += count
    return places


def wanted_rows(rows: Sequence[Row], first_row: Sequence[int]) -> Integers:
    """Rows of the pass whose scores are wanted, in the order of `score_places`."""
    ends = zip(first_row[1:], score_places(rows), strict=True)
    return np.array([end - len(place) + i for end, place in ends for i in range(len(place))], int)


def _table(runs: Sequence[Run]) -> Integers:
    """[B, N]: block 0 before and behind what a run holds."""
    table = np.zeros((len(runs), max(run.end for run in runs)), np.int64)
    for line, run in zip(table, runs, strict=True):
        line[run.first : run.end] = run.blocks
    return table


def _slots(table: Integers, positions: Sequence[Integers], span: Span) -> Integers:
    lines = zip(table, positions, strict=True)
    return np.concatenate(
        [line[at // span.block] * span.block + at % span.block for line, at in lines]
    )


def _on_device(arrays: Sequence[Integers], device: torch.device) -> list[Tensor]:
    flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays])).to(device)
    parts = torch.split(flat, [array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]
