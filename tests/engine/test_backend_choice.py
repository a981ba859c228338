"""Laws of the choice of a backend: our own on a GPU that can, llama.cpp elsewhere, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.backend_choice import Machine, choose_backend
from engine.errors import UnsupportedModel, UsageError
from engine.model_fit import fit_of
from models.description import describe
from models.gpu import Gpu, find_gpu
from models.model_description import ModelDescription
from tests.models.gguf_bytes import tiny_llama
from tests.models.hf_folders import write_folder

GIB = 1 << 30
H200 = Gpu("NVIDIA H200", (9, 0), 140 * GIB, 130 * GIB)
T4 = Gpu("Tesla T4", (7, 5), 16 * GIB, 15 * GIB)
WITH_GPU = Machine(H200, system="linux")
WITHOUT = Machine(None, system="linux")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelDescription:
    return describe(write_folder(tmp_path_factory.mktemp("made") / "tiny"))


def gguf(folder: Path, architecture: str) -> ModelDescription:
    eps = {f"{architecture}__attention__layer_norm_rms_epsilon": 1e-5}
    return describe(tiny_llama(2, architecture, **eps).write(folder / f"{architecture}.gguf"))


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (WITHOUT, "no NVIDIA device"),
        (Machine(T4, system="linux"), "compute capability 7.5, 8.0 is needed"),
        (Machine(H200, ("torch",), "linux"), r"pip install"),
        (Machine(H200, system="win32"), "Windows"),
    ],
)
def test_what_stands_against_our_own_backend_is_named(
    machine: Machine, words: str, folder: ModelDescription
) -> None:
    choice = choose_backend("auto", machine, folder)
    assert (choice.name, choice.device) == ("llama_cpp", "cpu")
    assert words in choice.reason


def test_a_gpu_runs_what_our_decoder_knows(folder: ModelDescription, tmp_path: Path) -> None:
    for known in (folder, gguf(tmp_path, "llama"), None):
        choice = choose_backend("auto", WITH_GPU, known)
        assert (choice.name, choice.device) == ("torch_paged", "cuda")
    other = choose_backend("auto", WITH_GPU, gguf(tmp_path, "mamba"))
    assert other.name == "llama_cpp"
    assert "mamba" in other.reason


def test_a_wish_is_followed_or_refused(folder: ModelDescription, tmp_path: Path) -> None:
    assert choose_backend("llama_cpp", WITH_GPU, folder).name == "llama_cpp"
    slow = choose_backend("torch_paged", WITHOUT, folder)
    assert (slow.name, slow.device) == ("torch_paged", "cpu")
    assert choose_backend("torch_paged", WITH_GPU, folder).device == "cuda"
    with pytest.raises(UsageError, match=r"localchat\[cuda\]"):
        choose_backend("torch_paged", Machine(None, ("torch",)), folder)
    with pytest.raises(UnsupportedModel, match="mamba"):
        choose_backend("torch_paged", WITHOUT, gguf(tmp_path, "mamba"))


def test_the_memory_that_counts_is_that_of_the_backend(folder: ModelDescription) -> None:
    here = fit_of(folder, 1_000_000, WITHOUT)
    assert here.converts
    assert not here.context.fits
    there = fit_of(folder, 1_000_000, WITH_GPU)
    assert not there.converts
    assert there.context.fits
    assert there.context.ctx == 1024
    full = Gpu("NVIDIA H200", (9, 0), 140 * GIB, 1_000_000)
    assert not fit_of(folder, 100 * GIB, Machine(full, system="linux")).context.fits


@pytest.mark.parametrize("visible", ["", "no-such-device", "99999999", "GPU-0000"])
def test_no_device_is_no_error(visible: str) -> None:
    assert find_gpu({"CUDA_VISIBLE_DEVICES": visible}) is None
