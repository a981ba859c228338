"""One life of the process that embeds: started, asked, ended. Knows bytes, no model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from app.knowledge.child_environment import child_environment
from app.knowledge.embedder import EmbedderFailed
from app.sanitize import single_line

if TYPE_CHECKING:
    from app.knowledge.embedder import Floats

COMMAND = (sys.executable, "-P", "-m", "app.knowledge.embedding_child")
"""-P: a folder named `app` where the person stands is not ours."""
START_SECONDS = 60.0
TEXT_SECONDS = 30.0
"""For one text; then it hangs, and is killed."""
NEXT_STEP = "Documents can still be searched by their words."


class ChildGone(Exception):
    """The process ended instead of answering."""


class EmbeddingProcess:
    """One caller at a time."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        """Waits until it is ready. Raises EmbedderFailed."""
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(os.environ),
            )
        except OSError as error:
            raise _failed(f"{error.strerror or error}: {command[0]}") from error
        try:
            self._read_head(START_SECONDS)
        except ChildGone as error:
            self.end()
            raise _failed("The process that embeds did not start") from error
        except EmbedderFailed:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, text: str) -> Floats:
        """The vector of one text. Raises ChildGone, EmbedderFailed."""
        import numpy as np

        try:
            _stream(self._process.stdin).write(json.dumps([text]).encode("ascii") + b"\n")
            _stream(self._process.stdin).flush()
        except OSError as error:
            raise ChildGone from error
        length = self._read_head(TEXT_SECONDS)["bytes"]
        body = _stream(self._process.stdout).read(length)
        if len(body) != length:
            raise ChildGone
        return np.frombuffer(body, "<f4").astype(np.float32)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            try:
                _stream(stream).close()
            except OSError:
                pass  # Unwritten bytes of a dead process.

    def _read_head(self, seconds: float) -> dict[str, Any]:
        watchdog = threading.Timer(seconds, self._process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            line = _stream(self._process.stdout).readline()
        finally:
            watchdog.cancel()
        if not line.endswith(b"\n"):
            raise ChildGone
        head: dict[str, Any] = json.loads(line)
        if "error" in head:
            raise _failed(str(head["error"]))
        return head


def _failed(reason: str) -> EmbedderFailed:
    return EmbedderFailed(
        "Documents cannot be searched by their meaning.", single_line(reason), NEXT_STEP
    )


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """No more than one thread, so that a core stays free."""
    one_thread = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**child_environment(inherited), **one_thread}


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
