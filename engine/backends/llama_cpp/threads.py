"""How many threads compute: the default, and a governor that makes way for other programs.

With one thread too many for the free cores every step waits for the slowest thread: beside one busy
program, two threads on two cores give 21 tokens/s where one gives 52. Knows no context.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# A foreign load of this many cores takes a thread away after DOWN_AFTER_S, and gives it back
# UP_AFTER_S after it went.
BUSY_CORES = 0.6
DOWN_AFTER_S = 0.5
UP_AFTER_S = 1.0
# Starting processes are rare; walking all of them takes milliseconds.
_FAMILY_REFRESH_S = 10.0
_OPENMP = ("OMP_", "GOMP_", "KMP_")
# How long threads spin between two operations before they sleep. On two cores, alone / beside one
# busy program of another session, tokens/s: libgomp's default of 300,000: 146 / 0.3 (a spinning
# thread keeps the core from the one it waits for), 20,000: 146 / 2.2, 2,000: 144 / 18,
# 1,000: 142 / 30, 100: 94 / 73.
_SPIN_COUNT = "2000"


def default_threads() -> int:
    """The physical cores that this process may use; hyper-threads slow a matrix product down."""
    import psutil

    return max(1, min(psutil.cpu_count(logical=False) or 1_000, allowed_cores()))


def allowed_cores() -> int:
    """The logical cores that affinity and control group leave to this process."""
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    return max(1, min(allowed, _quota() or allowed))


def worker_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that computes, without the inherited OpenMP variables.

    An inherited OMP_WAIT_POLICY=passive takes decoding from 102 to 26 tokens/s. CUDA counts its
    devices as the driver does, which `models/gpu.py` asks, and not the fastest first.
    """
    kept = {name: value for name, value in inherited.items() if not name.startswith(_OPENMP)}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **kept, "GOMP_SPINCOUNT": _SPIN_COUNT}


def _quota(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> int | None:
    """Cores that the control group allows, rounded up; None: no limit, or none of that kind."""
    try:
        quota, period = path.read_text().split()[:2]
        return None if quota == "max" else max(1, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        return None


class ThreadGovernor:
    """Follows the load of other programs. Pure: time and load come in as arguments."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._current = maximum
        self._wanted = maximum
        self._since = 0.0

    def begin(self, now: float, foreign_cores: float) -> int:
        """As `suggest`, without patience: nothing was computed yet, and the first step is long."""
        self._wanted = self._current = self._beside(foreign_cores)
        self._since = now
        return self._current

    def suggest(self, now: float, foreign_cores: float) -> int:
        """Threads to use at time `now` (seconds) beside a foreign load of that many cores."""
        wanted = self._beside(foreign_cores)
        if wanted != self._wanted:
            self._wanted, self._since = wanted, now
        patience = DOWN_AFTER_S if wanted < self._current else UP_AFTER_S
        if now - self._since >= patience:
            self._current = wanted
        return self._current

    def _beside(self, foreign_cores: float) -> int:
        taken = math.floor(foreign_cores + 1.0 - BUSY_CORES)
        return max(1, self._maximum - taken)


def is_fixed(threads: int | None, flash: bool, seed_given: bool) -> bool:
    """Whether the thread count must not change: the person set it, or it would change a seeded
    answer.
    """
    return threads is not None or (flash and seed_given)


@dataclass(frozen=True, slots=True)
class _Times:
    at: float
    busy: float
    """Processor seconds of the whole machine."""
    own: float


class ForeignLoad:
    """Measures how many cores other programs use: the machine's processor time less that of our
    processes.
    """

    def __init__(self, family_root: int) -> None:
        """`family_root`: the process whose descendants are ours."""
        self._root = family_root
        self._family: list[int] = []
        self._family_at = -math.inf
        self._before: _Times | None = None

    def sample(self, now: float) -> float:
        """Cores used by others since the last call; 0 at the first."""
        times = _Times(now, _busy_seconds(), self._own_seconds(now))
        before, self._before = self._before, times
        if before is None or now <= before.at:
            return 0.0
        foreign = (times.busy - before.busy) - max(0.0, times.own - before.own)
        return max(0.0, foreign / (now - before.at))

    def _own_seconds(self, now: float) -> float:
        import psutil

        if now - self._family_at >= _FAMILY_REFRESH_S:
            self._family = _descendants(self._root)
            self._family_at = now
        total = 0.0
        for pid in self._family:
            try:
                times = psutil.Process(pid).cpu_times()
                total += times.user + times.system
            except psutil.Error:  # it ended: its time no longer counts
                continue
        return total


def _descendants(root: int) -> list[int]:
    import psutil

    try:
        process = psutil.Process(root)
        return [root, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error:
        return []


def _busy_seconds() -> float:
    import psutil

    times = psutil.cpu_times()._asdict()
    # Guest time is counted in user time already.
    idle = ("idle", "iowait", "guest", "guest_nice", "steal")
    return float(sum(value for name, value in times.items() if name not in idle))
