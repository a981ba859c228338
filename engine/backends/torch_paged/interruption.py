"""The flag by which another thread stops a running pass."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interruption:
    """`interrupt` has an effect only while a pass runs: none is lost, and none is left over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = False
        self._wanted = False

    def interrupt(self) -> None:
        with self._lock:
            self._wanted = self._running

    def is_set(self) -> bool:
        return self._wanted

    @contextmanager
    def running(self) -> Iterator[None]:
        self._set(True)
        try:
            yield
        finally:
            self._set(False)

    def _set(self, running: bool) -> None:
        with self._lock:
            self._running, self._wanted = running, False
