"""Laws of the memory estimate, and the sizes that llama.cpp itself reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.description import describe
from models.memory import (
    DEFAULT_CONTEXT,
    DEFAULT_LIMIT,
    FORK_CELLS,
    KV_BYTES,
    choose_context,
    estimate,
    kv_bytes_per_token,
)
from models.model_description import ModelDescription
from tests.models.gguf_bytes import tiny_llama

MIB = 2**20


@pytest.fixture
def tiny(tmp_path: Path) -> ModelDescription:
    return describe(tiny_llama().write(tmp_path / "x.gguf"))


def test_kv_follows_head_sizes_and_not_the_hidden_size(tiny: ModelDescription) -> None:
    assert kv_bytes_per_token(tiny, "f16") == 2 * (2 * 32 * 2 + 2 * 32 * 2)
    assert kv_bytes_per_token(tiny, "q8") == 2 * (2 * 32 + 2 * 32) * 34 / 32
    assert kv_bytes_per_token(tiny, "k8v4") == 2 * (2 * 32 * 34 / 32 + 2 * 32 * 18 / 32)


@pytest.mark.model
@pytest.mark.parametrize(
    ("ctx", "ubatch", "flash", "compute_mib"),
    [
        (8192, 512, False, 166),
        (32768, 512, False, 646),
        (131072, 512, False, 2566),
        (8192, 512, True, 98),
        (32768, 512, True, 98),
        (131072, 512, True, 142),
        (8192, 128, False, 42),
        (8192, 32, False, 10),
    ],
)
def test_compute_of_the_starter_is_near_and_not_below_what_was_measured(
    starter_model: Path, ctx: int, ubatch: int, flash: bool, compute_mib: int
) -> None:
    needed = estimate(describe(starter_model), ctx - FORK_CELLS, "f16", ubatch, flash)
    assert compute_mib <= round(needed.compute / MIB) <= compute_mib + 13
    assert needed.kv == ctx * 23_040


@pytest.mark.model
def test_window_layers_stop_growing(window_model: Path) -> None:
    found = describe(window_model)
    short, long = (estimate(found, ctx, "f16").kv for ctx in (16_384, 32_768))
    grown = long - short
    assert grown == 16_384 * kv_bytes_per_token(found, "f16") * 3 / 18


@pytest.mark.parametrize("claim", [None, 0, 10**9, 2**40])
def test_absent_and_absurd_claims_give_a_sane_context(tiny: ModelDescription, claim: int) -> None:
    choice = choose_context(replace(tiny, ctx_train=claim), "auto", 2**40)
    assert choice.ctx == DEFAULT_CONTEXT
    assert choice.fits
    assert choice.reason


def test_a_large_claim_is_bounded_and_the_person_can_raise_it(tiny: ModelDescription) -> None:
    large = replace(tiny, ctx_train=131_072)
    assert choose_context(large, "auto", 2**40).ctx == DEFAULT_LIMIT
    asked = choose_context(large, "auto", 2**40, wanted=100_000)
    assert (asked.ctx, asked.fits) == (100_000, True)
    beyond = choose_context(large, "auto", 2**40, wanted=200_000)
    assert "trained on" in beyond.reason
    poor = choose_context(large, "auto", 10_000_000, wanted=100_000)
    assert (poor.ctx, poor.fits) == (100_000, False)
    assert poor.estimate.total > 10_000_000


@given(st.integers(0, 2**36), st.sampled_from(sorted(KV_BYTES)), st.integers(1, 2**24))
def test_a_choice_that_fits_is_the_longest(
    tiny: ModelDescription, free: int, kv_type: str, trained: int
) -> None:
    model = replace(tiny, ctx_train=trained)
    choice = choose_context(model, kv_type, free)
    assert 0 < choice.ctx <= min(trained, DEFAULT_LIMIT)
    assert choice.fits == (choice.estimate.total <= int(free * 0.8))
    if choice.fits and choice.ctx < min(trained, DEFAULT_LIMIT):
        longer = min(choice.ctx + 512, trained, DEFAULT_LIMIT)
        assert estimate(model, longer, kv_type).total > int(free * 0.8)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_tokens_never_need_less(tiny: ModelDescription, one: int, two: int) -> None:
    short, long = sorted((one, two))
    assert estimate(tiny, short).total <= estimate(tiny, long).total


def test_recurrent_models_need_the_same_at_any_length(tmp_path: Path) -> None:
    keys = {
        "mamba__ssm__inner_size": 128,
        "mamba__ssm__state_size": 16,
        "mamba__ssm__conv_kernel": 4,
    }
    found = describe(tiny_llama(2, "mamba", **keys).write(tmp_path / "x.gguf"))
    assert found.recurrent
    assert found.kv_heads == (0, 0)
    per_sequence = 2 * (3 * 128 + 16 * 128) * 4
    for ctx in (512, 65_536):
        assert estimate(found, ctx, sequences=3).kv == 3 * per_sequence


def test_hybrid_models_keep_kv_in_attention_layers_only(tmp_path: Path) -> None:
    keys = {"lfm2__attention__head_count_kv": [0, 2], "lfm2__shortconv__l_cache": 3}
    found = describe(tiny_llama(2, "lfm2", **keys).write(tmp_path / "x.gguf"))
    assert found.recurrent
    assert kv_bytes_per_token(found, "f16") == 2 * 32 * 2 * 2
    assert found.shapes.recurrent_values == 64 * 2
