"""Laws of who loads a model: folders reach llama.cpp converted once, and never in vain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.backend_choice import Machine
from engine.error_values import EngineStopped
from engine.errors import OutOfMemory, UsageError
from engine.messages import Load, LoadOptions
from engine.worker.dispatch import load
from engine.worker.model import Model
from models.gpu import Gpu
from tests.models.hf_folders import write_folder

WITHOUT_GPU = Machine(None)
H200 = Machine(Gpu("NVIDIA H200", (9, 0), 140 << 30, 130 << 30), system="linux")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("made") / "tiny")


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.worker.dispatch.this_machine", lambda: WITHOUT_GPU)


def go_on(_done: int, _total: int) -> bool:
    return True


def wanted(folder: Path, cache: Path, **options: Any) -> Load:
    chosen = {"ctx": 256, "self_tune": False, "converted_folder": str(cache), **options}
    return Load(str(folder), LoadOptions(**chosen))


def closed(model: Model) -> Model:
    model.close()
    return model


def made(cache: Path) -> list[tuple[str, int]]:
    return [(file.name, file.stat().st_mtime_ns) for file in cache.rglob("*.gguf")]


def test_a_folder_is_converted_once_and_told(folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> bool:
        seen.append((done, total))
        return True

    first = closed(load(wanted(folder, tmp_path), progress)).loaded
    assert (first.backend, first.quantization, first.kv_type) == ("llama_cpp", "Q8_0", "f16")
    assert (first.name, first.path) == ("tiny", str(folder))
    assert any("Converted once to Q8_0" in notice for notice in first.notices)
    assert len(seen) > 2
    ((name, when),) = made(tmp_path)
    assert name.endswith(".gguf")
    closed(load(wanted(folder, tmp_path), go_on))
    assert made(tmp_path) == [(name, when)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kv_type": "fp8"}, "fp8"),
        ({"kv_type": "q5"}, "q5"),
        ({"ctx": 20}, "too short"),
        ({"converted_folder": None}, "must be converted"),
    ],
)
def test_nothing_is_converted_for_a_load_that_is_refused(
    folder: Path, tmp_path: Path, options: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        load(wanted(folder, tmp_path, **options), go_on)
    assert made(tmp_path) == []


def test_nothing_is_converted_that_would_not_fit(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.worker.dispatch.free_memory", lambda: 1_000_000)
    with pytest.raises(OutOfMemory, match=r"of weights.*1\.0 MB are free"):
        load(wanted(folder, tmp_path), go_on)
    assert made(tmp_path) == []


def test_a_stopped_conversion_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineStopped):
        load(wanted(folder, tmp_path), lambda done, _total: done == 0)
    assert made(tmp_path) == []


def test_a_gpu_that_torch_cannot_use_is_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.worker.dispatch.this_machine", lambda: H200)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    loaded = closed(load(wanted(folder, tmp_path), go_on)).loaded
    assert loaded.backend == "llama_cpp"
    assert "torch finds no CUDA device: llama.cpp is used." in loaded.notices
