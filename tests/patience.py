"""Waiting for a state, never for a time: a busy machine makes a test slow and not wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import psutil

PATIENCE_S = 60.0
"""Nothing that works needs so long."""
_LOOK_S = 0.01


def becomes(condition: Callable[[], object], seconds: float = PATIENCE_S) -> bool:
    """Whether it holds before patience ends."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_S)
    return True


def have_ended(processes: Iterable[psutil.Process], seconds: float = PATIENCE_S) -> bool:
    """Whether none of them runs before patience ends."""
    return becomes(lambda: not any(map(is_running, processes)), seconds)


def is_running(process: psutil.Process) -> bool:
    """Not: it ended, and whoever should take note of that has not done so yet."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
