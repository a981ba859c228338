"""What the llama.cpp backend wants done beside the answers: make way for other programs, and tune
itself.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.threads import ForeignLoad, ThreadGovernor, is_fixed
from engine.backends.llama_cpp.tuning import MAX_SECONDS, Tuned, Tuner


class LlamaCppUpkeep:
    """Called by the backend's owner thread only."""

    def __init__(
        self,
        backend: LlamaCppBackend,
        load: ForeignLoad,
        threads_set: bool,
        tuner: Tuner | None = None,
        finished: Callable[[Tuned], None] = lambda _tuned: None,
    ) -> None:
        """`threads_set`: the person chose the number of threads. `finished` stores the tuner's
        result.
        """
        self._backend = backend
        self._load = load
        self._threads_set = threads_set
        self._maximum = backend.threads
        self._governor = ThreadGovernor(backend.threads)
        self._tuner = tuner
        self._finished = finished

    @property
    def threads(self) -> int:
        """Threads that compute now."""
        return self._backend.threads

    def poll(self, now: float, seeded: bool) -> None:
        """Follow the load of other programs; `seeded`: an answer with a chosen seed is running."""
        wanted = self._governor.suggest(now, self._load.sample(now))
        if is_fixed(1 if self._threads_set else None, self._backend.flash, seeded):
            wanted = self._maximum
        if wanted != self._backend.threads:
            self._backend.set_threads(wanted)

    def tune(self, should_stop: Callable[[], bool]) -> bool:
        """Measure for as long as `should_stop` is false; True when there is nothing left to do."""
        if self._tuner is None:
            return True
        tuned = self._tuner.run(MAX_SECONDS, should_stop)
        if tuned is None:
            return False
        self._tuner = None
        self._finished(tuned)
        return True
