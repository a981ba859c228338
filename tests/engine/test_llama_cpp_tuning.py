"""Self-tuning with trials of the test's own: what wins, pauses, and the time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from engine.backends.llama_cpp.context import ContextRefused
from engine.backends.llama_cpp.kv_types import F16
from engine.backends.llama_cpp.settings import ContextSettings
from engine.backends.llama_cpp.trial import Rates, Setting, Stopped
from engine.backends.llama_cpp.tuning import (
    Tuned,
    Tuner,
    TuningKey,
    load_tuned,
    make_tuner,
    save_tuned,
)
from tests.engine import tiny_models
from tests.engine.llama_cpp_support import opened_model

START = Setting(False, 2, 128)


@dataclass
class Bench:
    """Trials of known duration on a clock that only they move."""

    seconds: Callable[[Setting], float]
    now: float = 0.0
    tried: list[Setting] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def trial(self, setting: Setting, should_stop: Callable[[], bool]) -> Rates:
        if should_stop():
            raise Stopped
        self.tried.append(setting)
        self.now += 0.5
        turn = self.seconds(setting)
        return Rates(turn / 2, turn / 400)

    def has_tried(self, count: int) -> bool:
        return len(self.tried) >= count

    def tuner(self, flash_open: bool = True, threads: tuple[int, ...] = (1, 2, 4)) -> Tuner:
        return Tuner(self.trial, START, flash_open, threads, self.clock)


@pytest.mark.parametrize(("gain", "wins"), [(0.95, False), (0.92, False), (0.85, True)])
def test_flash_attention_off_wins_unless_it_is_clearly_slower(gain: float, wins: bool) -> None:
    bench = Bench(lambda setting: gain if setting.flash else 1.0)
    tuned = bench.tuner().run(100, lambda: False)
    assert tuned is not None
    assert tuned.flash is wins
    assert (tuned.threads, tuned.n_ubatch) == (2, 128)


def test_the_fastest_threads_and_micro_batch_are_found_and_rounds_are_interleaved() -> None:
    bench = Bench(lambda s: 1.0 - 0.3 * (s.threads == 4) - 0.1 * (s.n_ubatch == 64))
    tuned = bench.tuner().run(100, lambda: False)
    assert tuned is not None
    assert (tuned.flash, tuned.threads, tuned.n_ubatch) == (False, 4, 64)
    assert tuned.turn_s == pytest.approx(0.6)
    assert bench.tried[:4] == [START, replace(START, flash=True)] * 2


def test_what_the_person_fixed_is_not_tried() -> None:
    bench = Bench(lambda _setting: 1.0)
    bench.tuner(flash_open=False, threads=()).run(100, lambda: False)
    assert {(setting.flash, setting.threads) for setting in bench.tried} == {(False, 2)}


def test_a_pause_keeps_what_was_measured() -> None:
    bench = Bench(lambda setting: 0.5 if setting.flash else 1.0)
    tuner = bench.tuner()
    tuned, slices = None, 0
    while tuned is None:
        slices += 1
        tuned = tuner.run(100, partial(bench.has_tried, 3 * slices))
    assert slices > 2
    assert tuned.flash
    assert all(bench.tried.count(setting) == 3 for setting in set(bench.tried))


def test_out_of_time_decides_with_what_there_is() -> None:
    bench = Bench(lambda setting: 0.5 if setting.flash else 1.0)
    tuned = bench.tuner().run(1.2, lambda: False)
    assert tuned is not None
    assert tuned.flash
    assert bench.now <= 1.5
    assert Bench(lambda _setting: 1.0).tuner().run(0.0, lambda: False) == Tuned(False, 2, 128, 0.0)


def test_a_setting_that_the_model_refuses_is_left_out() -> None:
    def trial(setting: Setting, _should_stop: Callable[[], bool]) -> Rates:
        if setting.flash:
            raise ContextRefused
        return Rates(1.0, 0.01)

    tuned = Tuner(trial, START, flash_open=True).run(100, lambda: False)
    assert tuned is not None
    assert not tuned.flash


def test_a_result_holds_for_its_key_only(tmp_path: Path) -> None:
    key = TuningKey.here("weights", "f16")
    tuned = Tuned(True, 3, 64, 1.5)
    assert load_tuned(tmp_path, key) is None
    save_tuned(tmp_path, key, tuned)
    assert load_tuned(tmp_path, key) == tuned
    assert load_tuned(tmp_path, replace(key, kv_type="k8")) is None
    key.path(tmp_path).write_text('{"key": {}, "tuned": {"flash": 3}}')
    assert load_tuned(tmp_path, key) is None
    save_tuned(tmp_path, key, replace_threads(tuned, 0))
    assert load_tuned(tmp_path, key) is None


def replace_threads(tuned: Tuned, threads: int) -> Tuned:
    return Tuned(tuned.flash, threads, tuned.n_ubatch, tuned.turn_s)


def test_a_persons_choice_goes_before_the_result() -> None:
    tuned = Tuned(True, 3, 64, 1.5)
    assert tuned.apply(ContextSettings(4096)) == ContextSettings(
        4096, flash=True, threads=3, n_ubatch=64
    )
    chosen = tuned.apply(ContextSettings(4096, flash=False, threads=1))
    assert (chosen.flash, chosen.threads) == (False, 1)


@pytest.fixture(params=["llama", "window", "mamba", "hybrid"])
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write = getattr(tiny_models, f"write_{request.param}")
    path: Path = write(tmp_path / "tiny.gguf")
    return path


def test_real_trials_run_on_every_kind_of_model_and_stop_when_asked(tiny: Path) -> None:
    with opened_model(tiny) as model:
        tuner = make_tuner(model, F16, ContextSettings(4096, threads=1))
        assert tuner.run(60, lambda: True) is None
        tuned = tuner.run(60, lambda: False)
    assert tuned is not None
    assert tuned.turn_s > 0
