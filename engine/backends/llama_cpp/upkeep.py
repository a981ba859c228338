"""What the llama.cpp backend wants done beside the answers: make way for other programs, and tune
itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.kv_types import find_kv_type
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import ContextSettings
from engine.backends.llama_cpp.threads import ForeignLoad, ThreadGovernor, is_fixed
from engine.backends.llama_cpp.tuning import (
    MAX_SECONDS,
    Tuned,
    Tuner,
    TuningKey,
    load_tuned,
    make_tuner,
    save_tuned,
)

_LOG = logging.getLogger(__name__)


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

    def begin(self, now: float) -> None:
        """Start with the threads that the load since its first sample leaves free."""
        self._use(self._governor.begin(now, self._load.sample(now)), seeded=False)

    def poll(self, now: float, seeded: bool) -> None:
        """Follow the load of other programs; `seeded`: an answer with a chosen seed is running."""
        self._use(self._governor.suggest(now, self._load.sample(now)), seeded)

    def _use(self, wanted: int, seeded: bool) -> None:
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


def tuned_settings(asked: ContextSettings, model: str, folder: Path | None) -> ContextSettings:
    """`asked` with the tuning result for the model of that fingerprint, where there is one."""
    tuned = load_tuned(folder, _key(asked, model)) if folder else None
    return tuned.apply(asked) if tuned else asked


def foreign_load() -> ForeignLoad:
    """Of all processes but the front end and its children."""
    return ForeignLoad(os.getppid())


def make_upkeep(
    backend: LlamaCppBackend,
    loaded: LoadedModel,
    asked: ContextSettings,
    model: str,
    folder: Path | None,
    load: ForeignLoad | None = None,
) -> LlamaCppUpkeep:
    """`load`: sampled before, so that the next sample tells something; None: a new one.

    For a backend opened with `tuned_settings` of the same arguments; `folder` None: no tuning.

    It tunes if there is no result yet and the person left something open.
    """
    load = load or foreign_load()
    is_set = asked.threads is not None
    if folder is None or (is_set and asked.flash is not None):
        return LlamaCppUpkeep(backend, load, is_set)
    key = _key(asked, model)
    if load_tuned(folder, key) is not None:
        return LlamaCppUpkeep(backend, load, is_set)

    def store(tuned: Tuned) -> None:
        try:
            save_tuned(folder, key, tuned)
        except OSError as error:  # it is measured again after the next start
            _LOG.warning("the tuning result could not be saved: %s", error)

    return LlamaCppUpkeep(
        backend, load, is_set, make_tuner(loaded, backend.choice.kv, asked), store
    )


def _key(asked: ContextSettings, model: str) -> TuningKey:
    return TuningKey.here(model, find_kv_type(asked.kv_type).name)
