"""The front end's side of embedding with a GGUF model: load, embed, stop, close.

Thread-safe. Starts the process when it needs one, and a new one when the last died.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from engine.backends.llama_cpp.threads import worker_environment
from engine.error_values import error_of
from engine.errors import LocalchatError
from engine.events import Failed
from engine.link import LOAD, Link, answering
from engine.messages import (
    Cancel,
    Close,
    Embed,
    Embedded,
    EmbedderReady,
    Load,
    LoadOptions,
)

COMMAND = (sys.executable, "-P", "-m", "engine.embedding")
"""-P: a folder named `engine` where the person stands is not ours."""
CLOSE_SECONDS = 2.0


class EmbeddingClient:
    """One model."""

    def __init__(
        self,
        path: str,
        log_path: Path,
        threads: int | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """`threads` None: all cores but one."""
        self._load = Load(path, LoadOptions(threads=threads))
        self._log_path = log_path
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._ready: EmbedderReady | None = None
        self._numbers = itertools.count(1)
        self._running: set[str] = set()

    def ready(self) -> EmbedderReady:
        """Loads the model unless it is. Raises LocalchatError: why it cannot be."""
        return self._living()[1]

    @property
    def pid(self) -> int | None:
        link = self._link
        if link is None or link.ended is not None or link.process is None:
            return None
        return link.process.pid

    def embed(self, text: str, is_query: bool = False) -> bytes:
        """The unit vector, float32. Raises EngineStopped after `stop_passages`, LocalchatError."""
        link, _ = self._living()
        request_id = f"embed {next(self._numbers)}"
        inbox = link.open(answering(request_id))
        if not is_query:
            self._running.add(request_id)
        try:
            plain = text.encode("utf-8", "replace").decode("utf-8")
            link.send(Embed(request_id, plain, is_query))
            answer = inbox.get()
        finally:
            self._running.discard(request_id)
            link.close_inbox(answering(request_id))
        if isinstance(answer, Failed):
            raise error_of(answer.cause)
        assert isinstance(answer, Embedded)
        return answer.vector

    def stop_passages(self) -> None:
        """From any thread: passages that are being embedded end with EngineStopped at once."""
        link = self._link
        if link is not None:
            for request_id in tuple(self._running):
                link.send(Cancel(request_id))

    def close(self) -> None:
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close(Close(), CLOSE_SECONDS)

    def _living(self) -> tuple[Link, EmbedderReady]:
        with self._lock:
            if self._link is None or self._ready is None or self._link.ended is not None:
                self._link, self._ready = self._start()
            return self._link, self._ready

    def _start(self) -> tuple[Link, EmbedderReady]:
        self._log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        link = Link(self._command, self._log_path, worker_environment(os.environ))
        inbox = link.open(LOAD)
        link.send(self._load)
        try:
            while True:
                match inbox.get():
                    case EmbedderReady() as ready:
                        return link, ready
                    case Failed(cause=cause):
                        raise error_of(cause)
        except LocalchatError:
            link.kill()
            raise
        finally:
            link.close_inbox(LOAD)
