"""The thread governor with a clock of the test's own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from engine.backends.llama_cpp.threads import (
    ForeignLoad,
    ThreadGovernor,
    _quota,
    default_threads,
    is_fixed,
    worker_environment,
)


def run(governor: ThreadGovernor, start: float, seconds: float, load: float) -> int:
    steps = round(seconds * 10)
    for step in range(steps + 1):
        threads = governor.suggest(start + step / 10, load)
    return threads


def test_a_lasting_load_takes_a_thread_and_gives_it_back() -> None:
    governor = ThreadGovernor(2)
    assert run(governor, 0.0, 0.4, 1.0) == 2
    assert run(governor, 0.5, 0.2, 1.0) == 1
    assert run(governor, 1.0, 0.9, 0.1) == 1
    assert run(governor, 2.0, 0.2, 0.1) == 2


def test_the_first_look_needs_no_patience() -> None:
    governor = ThreadGovernor(4)
    assert governor.begin(10.0, 1.0) == 3
    assert governor.suggest(10.1, 0.0) == 3
    assert run(governor, 10.1, 2.0, load=0.0) == 4


def test_a_short_or_a_small_load_changes_nothing() -> None:
    governor = ThreadGovernor(2)
    for second in range(5):
        assert run(governor, second, 0.3, 1.0) == 2
        assert run(governor, second + 0.4, 0.5, 0.0) == 2
    assert run(governor, 10, 5, 0.55) == 2


def test_one_thread_always_stays() -> None:
    assert run(ThreadGovernor(2), 0, 3, 9.0) == 1
    assert run(ThreadGovernor(1), 0, 3, 9.0) == 1
    assert run(ThreadGovernor(8), 0, 3, 3.0) == 5


@pytest.mark.parametrize(
    ("threads", "flash", "seeded", "fixed"),
    [
        (2, False, False, True),
        (None, True, True, True),
        (None, True, False, False),
        (None, False, True, False),
    ],
)
def test_when_the_count_stays_fixed(
    threads: int | None, flash: bool, seeded: bool, fixed: bool
) -> None:
    assert is_fixed(threads, flash, seeded) is fixed


def test_an_inherited_wait_policy_does_not_reach_the_worker() -> None:
    inherited = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "PATH": "/bin"}
    environment = worker_environment(inherited)
    assert "OMP_WAIT_POLICY" not in environment
    assert 1000 <= int(environment["GOMP_SPINCOUNT"]) <= 20_000
    assert environment["PATH"] == "/bin"
    assert inherited["GOMP_SPINCOUNT"] == "0"


def test_cuda_counts_devices_as_the_driver_does() -> None:
    """Or a machine with several would be told of one and use another."""
    assert worker_environment({})["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    chosen = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "1"}
    assert worker_environment(chosen).items() >= chosen.items()


def test_the_default_is_within_what_the_process_may_use(tmp_path: Path) -> None:
    assert 1 <= default_threads() <= (os.cpu_count() or 1)
    quota = tmp_path / "cpu.max"
    quota.write_text("150000 100000\n")
    assert _quota(quota) == 2
    quota.write_text("max 100000\n")
    assert _quota(quota) is None
    assert _quota(tmp_path / "none") is None


def test_own_work_is_not_a_foreign_load() -> None:
    foreign = ForeignLoad(os.getpid())
    assert foreign.sample(0.0) == 0.0
    begin = time.process_time()
    while time.process_time() - begin < 0.3:
        pass
    own = foreign._before
    assert own is not None
    after = foreign.sample(1.0)
    assert foreign._before is not None
    assert foreign._before.own - own.own >= 0.25
    assert after >= 0.0
