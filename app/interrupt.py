"""Ctrl+C while a session works: the first stops the answer, which is kept; a second ends at once.

It knows signals and a session's `cancel`, nothing of what is answered.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Interruption:
    """A context in which SIGINT stops gently; `asked` tells whether it came. Main thread only."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before: Any = None
        self.asked = False

    def __enter__(self) -> Interruption:
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        # In a thread of its own: the interrupted code may hold the lock that stopping needs.
        threading.Thread(target=self._stop, name="stop", daemon=True).start()
