"""Which chunks stand in which rows of the vectors, in the shape that a search needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.knowledge.vectors import Rows


@dataclass(frozen=True, slots=True)
class RowTable:
    row_of: Mapping[int, int]
    """Chunk id to row; chunks without a vector are left out."""
    chunks_of: Mapping[int, Sequence[int]]
    """Row to the chunks that hold its text."""
    used: Rows
    """The rows, each once."""


def row_table(slots: Mapping[int, int]) -> RowTable:
    """`slots`: chunk id to row."""
    import numpy as np

    chunks_of: dict[int, list[int]] = {}
    for chunk_id, row in slots.items():
        chunks_of.setdefault(row, []).append(chunk_id)
    return RowTable(slots, chunks_of, np.fromiter(chunks_of, np.int64, len(chunks_of)))
