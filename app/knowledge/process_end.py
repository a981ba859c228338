"""The end of a process that works for us, whatever state it is in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Its input and output; it is gone afterwards."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdin, process.stdout
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        try:
            process.stdin.close()
        except OSError:
            pass  # Unwritten bytes of a dead process.
