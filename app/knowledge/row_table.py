"""Which chunks stand in which rows of the vectors, in the shape that a search needs: 32 bytes a
chunk, where mappings would take 250.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.knowledge.vectors import Rows


@dataclass(frozen=True, slots=True)
class RowTable:
    """Chunks without a vector are left out."""

    chunks: Rows
    """Ids, ascending."""
    rows: Rows
    """Of each of `chunks`."""
    order: Rows
    """Places in `chunks` by ascending row."""
    used: Rows
    """The rows, each once, ascending."""

    def __len__(self) -> int:
        """Chunks."""
        return len(self.chunks)

    def row_of(self, chunk_id: int) -> int | None:
        place = int(self.chunks.searchsorted(chunk_id))
        is_there = place < len(self.chunks) and self.chunks[place] == chunk_id
        return int(self.rows[place]) if is_there else None

    def chunks_of(self, row: int) -> list[int]:
        """The chunks that hold its text."""
        first = int(self.rows.searchsorted(row, "left", self.order))
        last = int(self.rows.searchsorted(row, "right", self.order))
        return [int(chunk_id) for chunk_id in self.chunks[self.order[first:last]]]


def row_table(slots: Iterable[tuple[int, int]]) -> RowTable:
    """`slots`: chunk id and row of each chunk with a vector."""
    import numpy as np

    pairs = np.asarray(np.fromiter(slots, np.dtype((np.int64, 2))), np.int64)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    chunks, rows = pairs[:, 0].copy(), pairs[:, 1].copy()
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    is_new = np.diff(ordered, prepend=-1) > 0
    return RowTable(chunks, rows, order, ordered[is_new])
