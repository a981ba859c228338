"""The vectors of a knowledge base: a file of float32 rows, mapped into memory, searched exactly;
very many with the help of a graph, whose candidates are compared exactly.

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
from app.knowledge import graph_file
from app.knowledge.stored import VectorSearch
from app.knowledge.vector_graph import NONE_YET, Division, NoGraph, VectorGraph, open_graph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from app.knowledge.graph_file import Flags

    Floats = NDArray[np.float32]
    Rows = NDArray[np.int64]

NUMBER_BYTES = 4
BLOCK_ROWS = 65_536
"""Rows that are multiplied at once: 100 MB at 384 numbers."""
GATHER_ROWS = 4_096
"""Rows that are copied at once where they lie apart: 6 MB, so that they stay in the cache."""
EXACT_ROWS = 500_000
"""Up to so many rows in use all are compared: 70 ms of one core at 384 numbers."""
UNUSED = -2.0
"""Below every cosine."""


class Vectors:
    """Rows of `size` float32 in one file; unit vectors, so that a product is a cosine. Usable from
    any thread; one process at a time writes.
    """

    def __init__(
        self, path: Path, size: int, owner: str = "", exact_rows: int = EXACT_ROWS
    ) -> None:
        """`owner`: whose rows they are; a graph of another's is not looked at. Above `exact_rows`
        in use a graph is, where there is one.
        """
        self.path = path
        self.size = size
        self.owner = owner
        self.exact_rows = exact_rows
        self._map: Floats | None = None
        self._map_number = 0
        """Of the file that is mapped; no other file has it as long as that."""
        self._lock = threading.Lock()
        self._graph: VectorGraph | str = NONE_YET
        """The newest, or why there is none."""
        self._graph_path: Path | None = None
        self._graph_lock = threading.Lock()
        self._division: tuple[VectorGraph, Rows | None, int, Division] | None = None

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
            graph_file.give_up(self.path, self.owner, rows)
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
        of rows; of `used` rows only where given (others are free: they may hold anything). A graph
        may miss a near row; every cosine is exact.
        """
        table = self._mapped()
        if (len(table) if used is None else len(used)) > self.exact_rows:
            found = self._by_graph(table, query, limit, used)
            if found is not None:
                return found
        return exact(table, query, limit, used)

    def search_way(self, used: int) -> VectorSearch:
        """How so many rows in use are searched now."""
        if used <= self.exact_rows:
            return VectorSearch("exact")
        try:
            self.graph()
        except NoGraph as reason:
            return VectorSearch("exact", str(reason))
        return VectorSearch("graph + exact tail")

    def graph(self) -> VectorGraph:
        """The newest graph, opened once. Raises NoGraph."""
        newest = next(iter(graph_file.graphs(self.path)), None)
        with self._graph_lock:
            if newest != self._graph_path or newest is None:
                try:
                    self._graph = open_graph(self.path, self.owner, self.size)
                except NoGraph as reason:
                    self._graph = str(reason)
                self._graph_path = newest
            if isinstance(self._graph, str):
                raise NoGraph(self._graph)
            return self._graph

    def _by_graph(
        self, table: Floats, query: Floats, limit: int, used: Rows | None
    ) -> tuple[Rows, Floats] | None:
        """The best of what the graph finds and of all that it does not hold. None: all must be
        compared.
        """
        import numpy as np

        try:
            graph = self.graph()
        except NoGraph:
            return None
        division = self._divided(graph, len(table), used)
        near = graph.near(query, limit, division)
        if near is None:
            return None
        parts = [
            best(cosines_of(table, rows, query), limit, rows) for rows in (near, division.tail)
        ]
        rows, cosines = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((rows, -cosines))[:limit]
        return rows[order], cosines[order]

    def _divided(self, graph: VectorGraph, rows: int, used: Rows | None) -> Division:
        """The last one is kept: the rows in use change seldom."""
        known = self._division
        if known is None or known[0] is not graph or known[1] is not used or known[2] != rows:
            known = self._division = (graph, used, rows, graph.divide(flags(used, rows)))
        return known[3]

    def close(self) -> None:
        with self._lock:
            self._map = None
        with self._graph_lock:
            self._graph, self._graph_path, self._division = NONE_YET, None, None

    def _mapped(self) -> Floats:
        """[rows, size]; mapped anew when the file has grown, or is another one."""
        import numpy as np

        with self._lock:
            rows = len(self)
            if rows == 0:
                return np.empty((0, self.size), np.float32)
            number = self.path.stat().st_ino
            if self._map is None or number != self._map_number or len(self._map) != rows:
                self._map = np.memmap(self.path, dtype="<f4", mode="r", shape=(rows, self.size))
                self._map_number = number
            return self._map


def exact(
    table: Floats, query: Floats, limit: int, used: Rows | None = None
) -> tuple[Rows, Floats]:
    """`Vectors.search` over all rows of `table` [rows, size]."""
    import numpy as np

    cosines = np.empty(len(table), np.float32)
    for start in range(0, len(table), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        multiply(table[block], query, cosines[block])
    if used is not None:
        used = used[used < len(table)]
        masked = np.full(len(table), UNUSED, np.float32)
        masked[used] = cosines[used]
        cosines = masked
    return best(cosines, limit)


def best(cosines: Floats, limit: int, rows: Rows | None = None) -> tuple[Rows, Floats]:
    """The largest `cosines` with their rows: of `rows` where they do not stand for all."""
    places = nearest(cosines, limit)
    places = places[cosines[places] > UNUSED]
    return places if rows is None else rows[places], cosines[places]


def flags(used: Rows | None, rows: int) -> Flags:
    """[rows]: which are in use."""
    import numpy as np

    if used is None:
        return np.ones(rows, np.bool_)
    found = np.zeros(rows, np.bool_)
    found[used[used < rows]] = True
    return found


def cosines_of(table: Floats, rows: Rows, query: Floats) -> Floats:
    """[len(rows)]: of these rows, which are in order; those that lie together are not copied."""
    import numpy as np

    cosines = np.empty(len(rows), np.float32)
    start = 0
    while start < len(rows):
        block = rows[start : start + BLOCK_ROWS]
        first, last = int(block[0]), int(block[-1]) + 1
        if last - first == len(block):
            vectors = table[first:last]
        else:
            block = block[:GATHER_ROWS]
            vectors = table[block]
        multiply(vectors, query, cosines[start : start + len(block)])
        start += len(block)
    return cosines


def multiply(vectors: Floats, query: Floats, cosines: Floats) -> None:
    """Into `cosines`; damaged rows give what they give.

    On one thread: memory is what it waits for, and threads of a BLAS wait for each other where the
    cores are busy (72,000 rows: 35 ms, here 4).
    """
    import numpy as np

    with np.errstate(all="ignore"):
        np.einsum("ij,j->i", vectors, query, out=cosines)


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
