"""The process that embeds: `python -P -m app.knowledge.embedding_child`. Reads texts on standard
input, writes vectors on standard output; ends with its input, or after a minute without work.

    in     one JSON line a request: a list of texts
    out    one JSON line: {"ready": true} once, then {"bytes": n} and n bytes of float32 a request,
           or {"error": text}
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.knowledge.embedder import Floats

IDLE_S = 60.0
NICENESS = 10
_LINES_WAITING = 4


def main(reading: IO[bytes], writing: IO[bytes], idle_s: float = IDLE_S) -> int:
    """Serves until it is idle for `idle_s`; the status to end with."""
    from app.knowledge.minilm import DamagedWeights, MiniLM

    lines: queue.Queue[bytes] = queue.Queue(_LINES_WAITING)
    threading.Thread(target=_read, args=(reading, lines), daemon=True).start()
    make_way()
    try:
        model = MiniLM()
    except DamagedWeights as error:
        _answer(writing, {"error": str(error)})
        return 1
    _answer(writing, {"ready": True})
    serve(model.embed, lines, writing, idle_s)
    return 0


def serve(
    embed: Callable[[Sequence[str]], Floats],
    lines: queue.Queue[bytes],
    writing: IO[bytes],
    idle_s: float,
) -> None:
    while True:
        try:
            line = lines.get(timeout=idle_s)
        except queue.Empty:
            return
        vectors = embed(json.loads(line)).astype("<f4").tobytes()
        _answer(writing, {"bytes": len(vectors)}, vectors)


def make_way() -> None:
    """Everything else on the machine goes before this process."""
    if sys.platform == "win32":
        import psutil

        psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
        return
    try:
        os.nice(NICENESS)
    except OSError:
        pass  # A system that does not allow it; it works all the same.


def _read(reading: IO[bytes], lines: queue.Queue[bytes]) -> None:
    """Ends the process with its input, also in the middle of a native call."""
    for line in reading:
        lines.put(line)
    os._exit(0)


def _answer(writing: IO[bytes], head: dict[str, Any], body: bytes = b"") -> None:
    writing.write(json.dumps(head).encode("ascii") + b"\n" + body)
    writing.flush()


if __name__ == "__main__":
    # At once: Python would abort over the thread that reads.
    os._exit(main(sys.stdin.buffer, sys.stdout.buffer))
