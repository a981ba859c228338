"""The backend makes way for other programs, and is tuned once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.settings import ContextSettings
from engine.backends.llama_cpp.threads import ForeignLoad
from engine.backends.llama_cpp.trial import Rates, Setting, Stopped
from engine.backends.llama_cpp.tuning import Tuned, Tuner
from engine.backends.llama_cpp.upkeep import LlamaCppUpkeep, make_upkeep, tuned_settings
from tests.engine import tiny_models
from tests.engine.llama_cpp_support import opened_backend, opened_model


class Load(ForeignLoad):
    def __init__(self, cores: float) -> None:
        self.cores = cores

    def sample(self, now: float) -> float:
        return self.cores


@pytest.fixture(params=[False, True])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LlamaCppBackend]:
    path = tiny_models.write_llama(tmp_path / "tiny.gguf")
    with (
        opened_model(path) as model,
        opened_backend(model, threads=2, flash=request.param) as opened,
    ):
        yield opened


def test_threads_follow_a_foreign_load_but_not_under_a_seeded_flash_answer(
    backend: LlamaCppBackend,
) -> None:
    load = Load(1.0)
    upkeep = LlamaCppUpkeep(backend, load, threads_set=False)
    for tenth in range(8):
        upkeep.poll(tenth / 10, seeded=False)
    assert upkeep.threads == 1
    upkeep.poll(0.8, seeded=True)
    assert upkeep.threads == (2 if backend.flash else 1)
    load.cores = 0.0
    for tenth in range(10, 25):
        upkeep.poll(tenth / 10, seeded=False)
    assert upkeep.threads == 2


def test_a_load_found_at_the_start_takes_a_thread_at_once(backend: LlamaCppBackend) -> None:
    upkeep = LlamaCppUpkeep(backend, Load(1.0), threads_set=False)
    upkeep.begin(0.0)
    assert upkeep.threads == 1


def test_threads_that_the_person_set_stay(backend: LlamaCppBackend) -> None:
    upkeep = LlamaCppUpkeep(backend, Load(2.0), threads_set=True)
    upkeep.begin(0.0)
    for tenth in range(20):
        upkeep.poll(tenth / 10, seeded=False)
    assert upkeep.threads == 2


def test_tuning_goes_on_after_a_pause_and_is_stored_once(backend: LlamaCppBackend) -> None:
    stored: list[Tuned] = []

    def trial(_setting: Setting, should_stop: object) -> Rates:
        if callable(should_stop) and should_stop():
            raise Stopped
        return Rates(1.0, 0.01)

    tuner = Tuner(trial, Setting(False, 2, 128), flash_open=True)
    upkeep = LlamaCppUpkeep(backend, Load(0.0), False, tuner, stored.append)
    assert not upkeep.tune(lambda: True)
    assert upkeep.tune(lambda: False)
    assert upkeep.tune(lambda: False)
    assert len(stored) == 1
    assert LlamaCppUpkeep(backend, Load(0.0), False).tune(lambda: False)


def test_a_result_is_used_from_the_next_load_on(tmp_path: Path) -> None:
    path = tiny_models.write_llama(tmp_path / "tiny.gguf")
    folder = tmp_path / "tuning"
    asked = ContextSettings(4096)
    with opened_model(path) as model, opened_backend(model) as backend:
        assert tuned_settings(asked, "print", folder) == asked
        assert make_upkeep(backend, model, asked, "print", None).tune(lambda: True)
        assert not make_upkeep(backend, model, asked, "print", folder).tune(lambda: True)
        assert make_upkeep(backend, model, asked, "print", folder).tune(lambda: False)
        settings = tuned_settings(asked, "print", folder)
        assert settings.threads is not None
        assert settings.flash is not None
        assert make_upkeep(backend, model, asked, "print", folder).tune(lambda: True)
        assert tuned_settings(asked, "another", folder) == asked
