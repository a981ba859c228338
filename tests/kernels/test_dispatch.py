"""The table of implementations: who is taken, who is skipped and why, and what can be forced."""

from __future__ import annotations

import importlib
from subprocess import CalledProcessError

import pytest
import torch

from kernels import dispatch
from kernels.attention import paged_attention
from kernels.dispatch import MODES, TABLE, Heads, KernelMissing, Rows, choose
from kernels.kv_layout import KV_FORMATS, KVLayout
from kernels.tiles import GENERATIONS, generation

HOPPER = (9, 0)


def heads(name: str = "q8", size: int = 128, rows: int = 1) -> Heads:
    return Heads(size, 4, KVLayout(KV_FORMATS[name], 1, 8, size), rows)


@pytest.mark.parametrize("op", TABLE)
def test_the_last_entry_is_plain_torch_and_always_runs(op: str) -> None:
    last = TABLE[op][-1]
    assert (last.name, last.why_not) == ("reference", None)
    module, _, function = last.place.partition(":")
    assert module.startswith("kernels.")
    assert "triton" not in module
    assert callable(getattr(importlib.import_module(module), function))


def test_without_a_device_plain_torch_runs() -> None:
    choice = choose("attention", heads(), None)
    assert not choice.is_kernel
    assert choice.run.func is paged_attention
    assert choice.reason == "there is no NVIDIA device"


def test_an_old_device_is_named() -> None:
    choice = choose("store", heads(), (7, 5))
    assert not choice.is_kernel
    assert "7.5" in choice.reason


def test_few_rows_are_decoded_and_many_are_a_prompt() -> None:
    few, many = (choose("attention", heads(rows=rows), HOPPER) for rows in (4, 400))
    assert few.run.func.__name__ == "decode_attention"
    assert many.run.func.__name__ == "prefill_attention"
    assert (few.run.keywords["rows"], many.run.keywords["rows"]) == (4, 400)
    assert [name for name, _ in many.skipped] == ["triton"]


def test_a_missing_kernel_has_a_reason() -> None:
    choice = choose("attention", heads("f32"), HOPPER)
    assert not choice.is_kernel
    assert "f32" in choice.reason


def test_a_missing_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = importlib.import_module("triton.runtime").driver

    class Unbuilt:
        def get_current_target(self) -> object:
            raise CalledProcessError(1, ["gcc", "cuda_utils.c"])

    monkeypatch.setattr(driver, "_active", Unbuilt())
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    dispatch._why_no_launch.cache_clear()
    try:
        choice = choose("store", heads(), HOPPER)
        assert not choice.is_kernel
        assert "gcc and Python.h" in choice.reason
        with pytest.raises(KernelMissing, match="cuda_utils"):
            choose("store", heads(), HOPPER, "triton")
    finally:
        dispatch._why_no_launch.cache_clear()


def test_either_can_be_forced() -> None:
    assert not choose("store", heads(), HOPPER, "reference").is_kernel
    assert choose("store", heads(), HOPPER, "triton").is_kernel
    with pytest.raises(KernelMissing, match="f32"):
        choose("attention", heads("f32"), HOPPER, "triton")
    with pytest.raises(KernelMissing, match="no NVIDIA device"):
        choose("norm", Rows(64, torch.float32), None, "triton")


def test_unknown_devices_take_the_tiles_of_the_generation_before() -> None:
    assert generation((8, 7)) is GENERATIONS[(8, 6)]
    assert generation((12, 1)) is GENERATIONS[(12, 0)]
    assert generation((7, 0)) is GENERATIONS[(8, 0)]
    assert MODES == ("auto", "triton", "reference")


def test_a_tile_that_spills_on_some_generations_is_halved_there_alone() -> None:
    def tile(capability: tuple[int, int], name: str = "k8v4", size: int = 64) -> int:
        found: int = (
            choose("attention", heads(name, size), capability).run.keywords["splitting"].tile
        )
        return found

    assert (tile((12, 0)), tile((9, 0)), tile((8, 9))) == (64, 64, 128)
    assert (tile((12, 0), size=128), tile((12, 0), "q8"), tile((12, 0), "q4")) == (128, 128, 128)
