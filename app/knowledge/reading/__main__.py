"""The inside of the reading process: limits first, then one file after the other."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import IO

from app.knowledge.document import Document, Unreadable
from app.knowledge.reading.frames import (
    Answer,
    BrokenFrame,
    FrameTooLong,
    Request,
    read_request,
    write_frame,
)
from app.knowledge.reading.read import read

TELL_SECONDS = 0.1
"""Between two reports of pages: each wakes the parent."""


def main(requests: IO[bytes], answers: IO[bytes], memory_bytes: int, seconds: float) -> None:
    """Until the parent closes its end. `seconds`: an ending in case the parent has died."""
    limit_process(memory_bytes)
    write_frame(answers, Answer(progress=(0, 0)))  # from now on the time of a file runs
    while True:
        try:
            request = read_request(requests)
        except BrokenFrame:
            return
        _alarm(seconds)
        _send(answers, _read(request, answers, memory_bytes, seconds))
        _alarm(0)


def limit_process(memory_bytes: int) -> None:
    """No more memory than this, no file written, no core dumped, where the system has limits."""
    try:
        import resource
    except ImportError:
        return
    wanted = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in wanted.items():
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):
            pass  # A lower limit is set already, or the system does not know this one.


def _read(
    request: Request, answers: IO[bytes], memory_bytes: int, seconds: float
) -> Document | Unreadable:
    told = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() < told + TELL_SECONDS:
            return
        told = time.monotonic()
        _alarm(seconds)
        write_frame(answers, Answer(progress=(done, total)))

    try:
        return read(
            Path(os.fsdecode(request.path)),
            root=Path(os.fsdecode(request.root)) if request.root is not None else None,
            limits=request.limits,
            progress=progress,
        )
    except MemoryError:
        return Unreadable(f"skipped: it needs more than {memory_bytes // 2**20:,} MB of memory")


def _send(answers: IO[bytes], result: Document | Unreadable) -> None:
    try:
        if isinstance(result, Document):
            write_frame(answers, Answer(document=result))
        else:
            write_frame(answers, Answer(unreadable=result))
    except FrameTooLong:
        write_frame(answers, Answer(unreadable=Unreadable("too large")))


def _alarm(seconds: float) -> None:
    """Ends the process although its parent has died; the parent's own limit comes earlier."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]), float(sys.argv[2]))
