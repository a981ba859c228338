"""Laws of the benchmark: fair shares, honest medians, and the same work for both loops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch

from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.loader import load_model
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import BackendOptions, ContextSettings
from engine.bench import measure, own
from engine.bench.__main__ import opened, report, shape_of
from engine.bench.bare import BareLoop
from engine.bench.depth import STRETCH, parked_state, synthetic_state
from engine.bench.job import Job, Lap, Measured, shares
from engine.bench.measure import Bench
from engine.errors import UsageError


def test_shares_are_whole_nearly_equal_and_add_up() -> None:
    for total in (20, 64, 128, 3):
        parts = shares(total, 5)
        assert sum(parts) == total
        assert max(parts) - min(parts) <= 1


def test_a_report_is_the_ratio_of_medians() -> None:
    engine = tuple(Lap(10, seconds) for seconds in (1.0, 2.0, 4.0))
    bare = tuple(Lap(10, seconds) for seconds in (1.0, 1.0, 100.0))
    found = Measured("tg128", "f16", engine, bare, 32).as_object()
    assert found == {
        "test": "tg128",
        "kv_type": "f16",
        "tokens_per_s": 5.0,
        "bare_tokens_per_s": 10.0,
        "ratio": 0.5,
        "computed_tokens": 32,
    }


def test_without_another_loop_a_speed_stands_alone() -> None:
    found = Measured("tg128", "q8", (Lap(10, 2.0),), (), 32).as_object()
    assert found["tokens_per_s"] == 5.0
    assert found["bare_tokens_per_s"] is None
    assert found["ratio"] is None


def test_our_own_backend_is_measured_without_a_bare_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.models.hf_folders import write_folder

    for name, value in (("PROMPT", 48), ("WRITTEN", 10), ("WRITTEN_AT_DEPTH", 10), ("TURNS", 5)):
        monkeypatch.setattr(measure, name, value)
    monkeypatch.setattr(own, "DEPTH", own.STRETCH)
    job = Job(str(write_folder(tmp_path / "m")), backend="torch_paged")
    found = report(job, lambda message: None)
    assert found["backend"] == "torch_paged"
    assert found["bare"] == own.NO_LOOP
    results = {one["test"]: one for one in found["results"]}
    assert list(results) == ["pp512", "tg128", "tg128 sampled", "tg64@4096", "turns"]
    assert min(one["tokens_per_s"] for one in results.values()) > 0
    assert {one["ratio"] for one in results.values()} == {None}
    assert results["tg64@4096"]["computed_tokens"] == 8
    assert results["turns"]["computed_tokens"] == 5 * 16 + 4


def test_a_device_is_measured_before_a_model_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the model before it had is free again: a load asks how much there is."""
    told: list[str] = []

    def opened(*_: object) -> NoReturn:
        told.append("model")
        raise LookupError

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: told.append("freed"))
    monkeypatch.setattr(own, "_read_rate", lambda: told.append("read"))
    monkeypatch.setattr(own, "opened", opened)
    with pytest.raises(LookupError):
        own.measured(Job("m", backend="torch_paged"), "q8", "cuda", lambda message: None)
    assert told == ["freed", "read", "freed", "model"]


def test_a_folder_is_not_measured_on_llama_cpp(tmp_path: Path) -> None:
    from tests.models.hf_folders import write_folder

    folder = write_folder(tmp_path / "m")
    with pytest.raises(UsageError, match="is a folder"):
        report(Job(str(folder), backend="llama_cpp"), lambda message: None)
    with pytest.raises(UsageError, match="weights=int8 cannot be measured"):
        report(Job(str(folder), backend="llama_cpp", weights="int8"), lambda message: None)


@pytest.fixture(scope="module")
def model(starter_model: Path) -> Iterator[LoadedModel]:
    loaded = load_model(starter_model, BackendOptions(), lambda _done, _total: True)
    yield loaded
    loaded.close()


@pytest.fixture
def both(model: LoadedModel) -> Iterator[tuple[Bench, LlamaCppBackend]]:
    with opened(model, Job(str(model.path)), "auto") as made:
        yield made


@pytest.mark.model
def test_turns_compute_only_what_is_new(
    both: tuple[Bench, LlamaCppBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "TURNS", 5)
    measured = measure.turns(both[0])
    # Sixteen new tokens a turn, and the last one written, which was not read yet.
    assert measured.computed_tokens == 5 * 16 + 4
    assert len(measured.engine) == len(measured.bare) == 5
    assert sum(lap.tokens for lap in measured.engine) == 5 * 16


@pytest.mark.model
def test_every_round_of_reading_computes_the_whole_prompt(
    both: tuple[Bench, LlamaCppBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "PROMPT", 48)
    measured = measure.reading(both[0], deadline=0.0)
    assert measured.computed_tokens == 48
    assert len(measured.engine) == measure.LEAST_ROUNDS


@pytest.mark.model
def test_a_copied_depth_computes_as_the_same_text_that_was_read(
    both: tuple[Bench, LlamaCppBackend], model: LoadedModel
) -> None:
    bench, backend = both
    depth = 2 * STRETCH
    builder = BareLoop(model.handle, model.vocab_size, shape_of(backend, 2))
    try:
        state = synthetic_state(builder, bench.ids, depth)
        # The first stretch is untouched: going on behind it is as if nothing had been copied.
        builder.cut(STRETCH)
        builder.forward(bench.ids[5:6], STRETCH, last=True)
        after_copy = np.array(builder.logits(0))
        builder.clear()
        builder.read(bench.ids[:STRETCH])
        builder.forward(bench.ids[5:6], STRETCH, last=True)
        assert np.abs(after_copy - np.array(builder.logits(0))).max() < 0.1
    finally:
        builder.close()
    ids = tuple(bench.ids[:STRETCH]) * 2
    assert bench.engine.adopt("deep", ids, parked_state(backend, state, depth))
    bench.engine.begin([*ids, *bench.ids[:4]], 2, "deep")
    usage = bench.engine.finish().usage
    assert (usage.restored_tokens, usage.computed_tokens) == (depth, 4)


@pytest.mark.model
def test_keys_that_cannot_be_rotated_are_read_and_not_moved(model: LoadedModel) -> None:
    backend = LlamaCppBackend(model, ContextSettings(512, "bf16"))
    loop = BareLoop(model.handle, model.vocab_size, shape_of(backend))
    try:
        assert not loop.can_shift
    finally:
        loop.close()
        backend.close()
