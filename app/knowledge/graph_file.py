"""The file of a search graph. It lies beside a vector file and holds most of its rows.

    graph   as the library wrote it
    held    one bit a row of the vector file: whether the graph holds it
    head    JSON: whose rows they are, and checksums
    end     length of the head, 8 bytes, and MAGIC

A file appears whole, under a number that none before it had; only the newest counts. A row that it
holds is not written anew while it is there.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from app.paths import sync_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]

ENDING = ".usearch"
UNFINISHED = ".part"
MAGIC = b"lcgraph1"
END_BYTES = 8 + len(MAGIC)
READ_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class GraphFile:
    """What stands behind the graph, checked; the graph itself is not read yet."""

    path: Path
    held: Flags
    """[rows of the vector file when it was made]"""
    graph_bytes: int
    graph_crc: int

    def is_whole(self) -> bool:
        """Reads the graph: 0.7 s a GB. The library crashes over a damaged one."""
        try:
            with open(self.path, "rb") as file:
                return checksum(file, self.graph_bytes) == self.graph_crc
        except OSError:
            return False


def graphs(vectors: Path) -> list[Path]:
    """Graphs of a vector file, newest first."""
    found = {}
    for path in vectors.parent.glob(f"{vectors.stem}.*{ENDING}"):
        number = path.name[len(vectors.stem) + 1 : -len(ENDING)]
        if number.isdecimal():
            found[int(number)] = path
    return [found[number] for number in sorted(found, reverse=True)]


def next_path(vectors: Path) -> Path:
    """Of a graph that replaces the others."""
    newest = next(iter(graphs(vectors)), None)
    number = 1 if newest is None else int(newest.name.split(".")[-2]) + 1
    return vectors.with_name(f"{vectors.stem}.{number}{ENDING}")


def newest(vectors: Path, owner: str) -> GraphFile | None:
    """None: there is none, or it is torn, or its rows are not this owner's."""
    path = next(iter(graphs(vectors)), None)
    return None if path is None else read(path, owner)


def held_rows(vectors: Path, owner: str) -> list[int]:
    """Rows that must not be written anew."""
    found = newest(vectors, owner)
    return [] if found is None else [int(row) for row in found.held.nonzero()[0]]


def give_up(vectors: Path, owner: str, rows: Sequence[int]) -> None:
    """Before `rows` are written: a graph that holds one of them, or is not understood, goes. Raises
    OSError.
    """
    if not graphs(vectors):
        return
    found = newest(vectors, owner)
    if found is None or any(row < len(found.held) and found.held[row] for row in rows):
        remove(vectors)
        sync_folder(vectors.parent)


def remove(vectors: Path) -> None:
    """All graphs, the newest last: no older one may take its place. Raises OSError."""
    for path in reversed(graphs(vectors)):
        path.unlink(missing_ok=True)
    tidy(vectors)


def tidy(vectors: Path) -> None:
    """Removes what the newest replaced, and what was never finished."""
    parts = vectors.parent.glob(f"{vectors.stem}.*{ENDING}{UNFINISHED}")
    for path in (*graphs(vectors)[1:], *parts):
        try:
            path.unlink(missing_ok=True)
        except OSError:
            pass  # It does no harm; some systems hold what a process still searches.


def read(path: Path, owner: str) -> GraphFile | None:
    import numpy as np

    try:
        with open(path, "rb") as file:
            head = read_head(file)
            if head["owner"] != owner:
                return None
            file.seek(head["graph_bytes"])
            packed = file.read(-(-head["rows"] // 8))
            if zlib.crc32(packed) != head["held_crc"]:
                return None
            bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=head["rows"])
            return GraphFile(path, bits.astype(bool), head["graph_bytes"], head["graph_crc"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_head(file: IO[bytes]) -> dict[str, Any]:
    """From the end of the file. Raises ValueError and OSError where there is none."""
    file.seek(-END_BYTES, os.SEEK_END)
    end = file.read(END_BYTES)
    if not end.endswith(MAGIC):
        raise ValueError
    file.seek(-END_BYTES - int.from_bytes(end[:8], "little"), os.SEEK_END)
    head: dict[str, Any] = json.loads(file.read()[:-END_BYTES])
    return head


def finish(path: Path, owner: str, held: Flags) -> None:
    """Puts behind a graph what it is a graph of; on return all is on the disk."""
    import numpy as np

    packed = np.packbits(held).tobytes()
    with open(path, "r+b") as file:
        graph_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        head = {
            "owner": owner,
            "rows": len(held),
            "held_crc": zlib.crc32(packed),
            "graph_bytes": graph_bytes,
            "graph_crc": checksum(file, graph_bytes),
        }
        text = json.dumps(head).encode("ascii")
        file.write(packed + text + len(text).to_bytes(8, "little") + MAGIC)
        file.flush()
        os.fsync(file.fileno())


def checksum(file: IO[bytes], count: int) -> int:
    """CRC-32 of the next `count` bytes."""
    crc = 0
    while count > 0 and (block := file.read(min(count, READ_BYTES))):
        crc = zlib.crc32(block, crc)
        count -= len(block)
    return crc
