"""Background work makes way: it waits while somebody holds it up, and a moment longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

RESUME_AFTER_S = 2.0
"""An answer is often followed by the next question's reading."""
LOOK_S = 0.1
"""How often it is looked whether what waits is still wanted."""


class Pause:
    """Counts who holds the work up. Usable from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._holders = 0
        self._until = clock()
        self._closed = False

    def begin(self) -> None:
        with self._changed:
            self._holders += 1

    def end(self) -> None:
        """One `begin` less; without one it changes nothing."""
        with self._changed:
            if self._holders:
                self._holders -= 1
                self._until = self._clock() + RESUME_AFTER_S
                self._changed.notify_all()

    def close(self) -> None:
        """Nobody waits any more, from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def wait(self, is_wanted: Callable[[], bool] = lambda: True) -> bool:
        """Blocks while the work is held up; False once it is closed, or not wanted any more."""
        while True:
            with self._changed:
                if self._closed:
                    return False
                left = self._left()
                if left == 0:
                    return True
                self._changed.wait(LOOK_S if left is None else min(left, LOOK_S))
            if not is_wanted():
                return False

    def _left(self) -> float | None:
        """Seconds until the work may go on; None: nobody knows."""
        return None if self._holders else max(self._until - self._clock(), 0.0)
