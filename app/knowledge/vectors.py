"""The vectors of a knowledge base: a file of float32 rows, mapped into memory, searched exactly.

Which row belongs to which text only the index knows. A row is on the disk before the index names
it, so a crash leaves rows that nobody names, never a name without a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Rows = NDArray[np.int64]


class Vectors:
    """Rows of `size` float32 in one file; unit vectors, so that a product is a cosine."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size

    def __len__(self) -> int:
        """Rows in the file, used or free."""
        raise NotImplementedError

    def write(self, rows: Sequence[int], vectors: Floats) -> None:
        """Puts `vectors` [n, size] into these rows; on return they are on the disk. DiskFull and
        StorageError where that fails.
        """
        raise NotImplementedError

    def read(self, rows: Sequence[int]) -> Floats:
        """[n, size]."""
        raise NotImplementedError

    def search(self, query: Floats, limit: int, used: Rows | None = None) -> tuple[Rows, Floats]:
        """The rows nearest to `query` [size] and their cosines, best first; of `used` rows only
        where given.
        """
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
