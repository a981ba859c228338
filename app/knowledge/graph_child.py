"""The process that makes a search graph: `python -P -m app.knowledge.graph_child`, on one thread
behind everything else. It ends with its input.

    in     one JSON line and the rows to add, as bits; then `go` or `end` for each line of output
    out    JSON lines: {"done": n} before each step, {"kept": true or false} at the end,
           or {"error": text}
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from app.knowledge import graph_file
from app.knowledge.embedding_child import make_way
from app.knowledge.vector_graph import empty_index
from app.knowledge.vectors import Vectors, private

if TYPE_CHECKING:
    from app.knowledge.graph_file import Flags
    from app.knowledge.vectors import Floats

GO, END = b"go\n", b"end\n"
STEP_ROWS = 64
"""About 50 ms: so soon it makes way."""
WORTH_KEEPING_ROWS = 20_000
"""An unfinished graph with so many rows more is kept: a quarter of a minute's work."""


@dataclass(frozen=True, slots=True)
class Job:
    vectors: str
    size: int
    """Numbers in a vector."""
    owner: str
    target: str
    """The file that is written."""
    base: str | None
    """A graph that gets more rows; None: a new one."""
    worth_keeping: int = WORTH_KEEPING_ROWS


def build(job: Job, added: Flags, go_on: Callable[[int], bool]) -> bool:
    """Writes a graph that holds the rows `added` too. `go_on` gets the number of rows done and
    ends it early; whether a file was written.

    Rows that are no unit vectors, as damage leaves them, stay out.
    """
    import numpy as np

    vectors = Vectors(Path(job.vectors), job.size)
    held = np.zeros(len(added), np.bool_)
    index = empty_index(job.size)
    if job.base is not None and (base := graph_file.read(Path(job.base), job.owner)) is not None:
        index.load(job.base)
        held[: len(base.held)] = base.held
    rows = np.flatnonzero(added)
    done = 0
    while done < len(rows):
        if not go_on(done):
            break
        step = rows[done : done + STEP_ROWS]
        block = vectors.read(step.tolist())
        is_unit = unit(block)
        index.add(step[is_unit].astype(np.uint64), block[is_unit], threads=1)
        held[step[is_unit]] = True
        done += len(step)
    if done < min(len(rows), job.worth_keeping) or not held.any():
        return False
    with open(job.target, "wb", opener=private):
        pass  # The library keeps the rights of a file that is there.
    index.save(job.target)
    graph_file.finish(Path(job.target), job.owner, held)
    return True


def unit(vectors: Floats) -> Flags:
    """[n]: which of `vectors` [n, size] have length 1, nearly."""
    import numpy as np

    with np.errstate(all="ignore"):
        flags: Flags = np.abs(np.einsum("ij,ij->i", vectors, vectors) - 1) < 0.1
    return flags


def main(reading: IO[bytes], writing: IO[bytes]) -> int:
    """The status to end with."""
    import numpy as np

    make_way()
    head = json.loads(reading.readline())
    rows = head.pop("rows")
    packed = np.frombuffer(reading.read(-(-rows // 8)), np.uint8)
    answers: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read, args=(reading, answers), daemon=True).start()

    def go_on(done: int) -> bool:
        _tell(writing, {"done": done})
        return answers.get() == GO

    try:
        kept = build(Job(**head), np.unpackbits(packed, count=rows).astype(np.bool_), go_on)
    except (OSError, RuntimeError, MemoryError, ImportError) as error:
        _tell(writing, {"error": str(error)})
        return 1
    _tell(writing, {"kept": kept})
    return 0


def _read(reading: IO[bytes], answers: queue.Queue[bytes]) -> None:
    """Ends the process with its input, also in the middle of a native call."""
    for line in reading:
        answers.put(line)
    os._exit(0)


def _tell(writing: IO[bytes], message: dict[str, Any]) -> None:
    writing.write(json.dumps(message).encode("ascii") + b"\n")
    writing.flush()


if __name__ == "__main__":
    # At once: Python would abort over the thread that reads.
    os._exit(main(sys.stdin.buffer, sys.stdout.buffer))
