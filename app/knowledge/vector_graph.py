"""Finds the rows of a vector file that may be nearest to a query by a graph (HNSW, by usearch), so
that a search of a very large base does not read all of it.

The graph holds coarse vectors and is never believed: it names candidates, whose cosines are
computed from the vector file.
"""

from __future__ import annotations

import importlib.util
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.knowledge import graph_file

if TYPE_CHECKING:
    from app.knowledge.graph_file import Flags, GraphFile
    from app.knowledge.vectors import Floats, Rows

ASKED = (4, 16, 64)
"""Times the wanted rows: more where many near rows are free. Of the best 24 twice loses 1 in 45 at
500,000 rows, four times 1 in 77.
"""
LEAST_WANTED = 100
"""A graph that is asked for few looks around too little."""
CONNECTIVITY = 16
"""Edges of a row on upper levels, twice as many on the lowest: the library's and HNSW's usual."""
ADD_EXPANSION = 128
"""Rows looked at to find a new one's neighbours; 64 loses a few candidates in a thousand."""

MISSING = "usearch is not installed (extra `kb`)"
NONE_YET = "there is no search graph yet; `localchat kb sync` makes it"
UNUSABLE = "the search graph is damaged or not of these vectors; `localchat kb sync` makes it again"


class NoGraph(Exception):
    """Why vectors are searched without a graph, in words."""


@dataclass(frozen=True, slots=True)
class Division:
    """Rows of a vector file, divided by a graph."""

    live: Flags
    """[rows]: whether they are in use."""
    held: int
    """How many in use the graph holds."""
    tail: Rows
    """Those in use that it does not hold, ascending."""


class VectorGraph:
    """A graph file, mapped into memory. Usable from any thread."""

    def __init__(self, file: GraphFile, size: int) -> None:
        """Raises ImportError; RuntimeError where the library does not know the format."""
        self.path = file.path
        self.held: Flags = file.held
        """[rows of the vector file when it was made]"""
        self._lock = threading.Lock()
        self._index = empty_index(size)
        self._index.view(str(file.path))
        if self._index.ndim != size or len(self._index) != int(self.held.sum()):
            raise RuntimeError("The graph is of other vectors.")

    def near(self, query: Floats, limit: int, division: Division) -> Rows | None:
        """Rows in use that the graph holds, ascending: at least `limit` or all of them, the nearest
        most likely among them. None: too many rows near `query` are free.
        """
        import numpy as np

        enough = min(limit, division.held)
        for times in ASKED:
            rows = self._nearest(query, times * max(limit, LEAST_WANTED))
            rows = rows[rows < len(division.live)]
            rows = rows[division.live[rows]]
            if len(rows) >= enough:
                return np.sort(rows)
        return None

    def divide(self, live: Flags) -> Division:
        """`live` [rows]: which rows are in use."""
        import numpy as np

        held = self.held_of(len(live))
        return Division(live, int((live & held).sum()), np.flatnonzero(live & ~held))

    def held_of(self, rows: int) -> Flags:
        """[rows]: whether the graph holds them."""
        import numpy as np

        held = np.zeros(rows, np.bool_)
        held[: len(self.held)] = self.held[:rows]
        return held

    def _nearest(self, query: Floats, count: int) -> Rows:
        import numpy as np

        # Threads of the library would share its scratch memory.
        with self._lock:
            found = self._index.search(query, count, threads=1)
        rows: Rows = found.keys.astype(np.int64)
        return rows


def is_installed() -> bool:
    """Whether the library is there; does not import it."""
    return importlib.util.find_spec("usearch") is not None


def empty_index(size: int) -> Any:
    """The library's index of coarse vectors: 8 bits a number, 530 bytes a row with its edges at
    384 numbers.
    """
    from usearch.index import Index

    return Index(
        ndim=size,
        metric="cos",
        dtype="i8",
        connectivity=CONNECTIVITY,
        expansion_add=ADD_EXPANSION,
        enable_key_lookups=False,
    )


def open_graph(vectors: Path, owner: str, size: int) -> VectorGraph:
    """The newest graph of a vector file. Raises NoGraph."""
    if not graph_file.graphs(vectors):
        raise NoGraph(NONE_YET if is_installed() else MISSING)
    file = graph_file.newest(vectors, owner)
    if file is None or not file.is_whole():
        raise NoGraph(UNUSABLE)
    try:
        return VectorGraph(file, size)
    except ImportError as error:
        raise NoGraph(MISSING) from error
    except RuntimeError as error:
        raise NoGraph(UNUSABLE) from error
