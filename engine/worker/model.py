"""A loaded model with everything that belongs to it, as the worker's threads share it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.backends.base import Backend
from engine.chat import Chat
from engine.engine import Engine
from engine.messages import Load, Loaded


class Upkeep(Protocol):
    """What a backend wants done beside the answers. Called by the owner thread only."""

    @property
    def threads(self) -> int:
        """Threads that compute now."""
        ...

    def poll(self, now: float, seeded: bool) -> None:
        """Follow the load of other programs; called about five times a second while computing.

        `seeded`: an answer whose seed a person chose is running.
        """
        ...

    def tune(self, should_stop: Callable[[], bool]) -> bool:
        """Measure for as long as `should_stop` is false; True when there is nothing left to do."""
        ...


class NoUpkeep:
    """For backends without settings to follow."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads

    def poll(self, now: float, seeded: bool) -> None:
        return

    def tune(self, should_stop: Callable[[], bool]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Model:
    loaded: Loaded
    engine: Engine
    backend: Backend
    chat: Chat
    """Messages -> requests; the desk thread's, apart from `count`."""
    upkeep: Upkeep
    fingerprint: str
    """What a saved state must match."""
    close: Callable[[], None]
    """Frees the memory and ends the template's child process."""
    saved_folder: Path | None = None
    """Where saved states lie; None: they are neither read nor written."""
    saved_bytes: int = 0
    canonical: bool = True


Loader = Callable[[Load, Callable[[int, int], bool]], Model]
"""Loads a model; the callback gets (done bytes, total bytes) and says whether to go on.

Raises LocalchatError; EngineStopped when the callback said no.
"""
