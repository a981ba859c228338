"""The vectors of a knowledge base: a file of float32 rows, mapped into memory, searched exactly.

Which row belongs to which text only the index knows. A row is on the disk before the index names
it, so a crash leaves rows that nobody names, never a name without a row.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import file_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Rows = NDArray[np.int64]

NUMBER_BYTES = 4
BLOCK_ROWS = 65_536
"""Rows that are multiplied at once: 100 MB at 384 numbers."""
UNUSED = -2.0
"""Below every cosine."""


class Vectors:
    """Rows of `size` float32 in one file; unit vectors, so that a product is a cosine. Usable from
    any thread; one process at a time writes.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self._map: Floats | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Whole rows in the file, used or free."""
        try:
            return self.path.stat().st_size // (NUMBER_BYTES * self.size)
        except FileNotFoundError:
            return 0

    def write(self, rows: Sequence[int], vectors: Floats) -> None:
        """Puts `vectors` [n, size] into these rows; on return they are on the disk. DiskFull and
        StorageError where that fails.
        """
        import numpy as np

        if vectors.shape != (len(rows), self.size):
            raise ValueError(f"{vectors.shape} vectors for {len(rows)} rows of {self.size}")
        packed = np.ascontiguousarray(vectors, dtype="<f4")
        try:
            with open(self.path, "r+b" if self.path.exists() else "w+b", opener=private) as file:
                for row, vector in zip(rows, packed, strict=True):
                    file.seek(row * NUMBER_BYTES * self.size)
                    file.write(vector.tobytes())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise file_error(error, self.path) from error

    def read(self, rows: Sequence[int]) -> Floats:
        """[n, size]; IndexError for a row beyond the file."""
        import numpy as np

        return np.array(self._mapped()[list(rows)])

    def search(self, query: Floats, limit: int, used: Rows | None = None) -> tuple[Rows, Floats]:
        """The rows nearest to `query` [size] and their cosines, best first, equal ones in the order
        of rows; of `used` rows only where given (others are free: they may hold anything).
        """
        import numpy as np

        table = self._mapped()
        cosines = np.empty(len(table), np.float32)
        for start in range(0, len(table), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            np.dot(table[block], query, out=cosines[block])
        if used is not None:
            used = used[used < len(table)]
            masked = np.full(len(table), UNUSED, np.float32)
            masked[used] = cosines[used]
            cosines = masked
        best = nearest(cosines, limit)
        best = best[cosines[best] > UNUSED]
        return best, cosines[best]

    def close(self) -> None:
        with self._lock:
            self._map = None

    def _mapped(self) -> Floats:
        """[rows, size]; mapped anew when the file has grown."""
        import numpy as np

        with self._lock:
            rows = len(self)
            if rows == 0:
                return np.empty((0, self.size), np.float32)
            if self._map is None or len(self._map) < rows:
                self._map = np.memmap(self.path, dtype="<f4", mode="r", shape=(rows, self.size))
            return self._map


def nearest(cosines: Floats, limit: int) -> Rows:
    """Places of the largest values, largest first. NaN, from a damaged row, comes last."""
    import numpy as np

    values = np.nan_to_num(cosines, nan=UNUSED, copy=True)
    if limit < len(values):
        edge = np.partition(values, len(values) - limit)[len(values) - limit]
        places = np.flatnonzero(values >= edge)
    else:
        places = np.arange(len(values))
    order = np.argsort(-values[places], kind="stable")[:limit]
    return places[order].astype(np.int64)


def private(path: str, flags: int) -> int:
    """Opens a file that only its owner can read."""
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)
