"""Fixtures for every test: no developer's settings leak in, and real model files on request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import real_models

if "PYTEST_XDIST_WORKER" in os.environ:
    # Before torch is imported: processes side by side would only take the cores from each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# As in the engine's worker: on a busy machine, threads that spin for long wait for each other's
# cores, and a model in this process takes many times as long.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def pytest_configure() -> None:
    """The same examples in every run, and none of them too slow: how long one takes is the
    machine's affair. `--hypothesis-profile=searching` looks for others.
    """
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:
        return  # where only the kernels are tested
    steady = settings(
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.register_profile("steady", steady)
    settings.register_profile("searching", steady, derandomize=False)
    settings.load_profile("steady")


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, and none of the developer's `LOCALCHAT_*` settings."""
    for name in [name for name in os.environ if name.startswith(("LOCALCHAT_", "XDG_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture(scope="session")
def starter_model() -> Path:
    return real_models.starter()


@pytest.fixture(scope="session")
def window_model() -> Path:
    return real_models.window()


@pytest.fixture(scope="session")
def starter_folder() -> Path:
    return real_models.starter_folder()


@pytest.fixture(scope="session")
def window_folder() -> Path:
    return real_models.window_folder()
