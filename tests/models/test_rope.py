"""RoPE and its scalings turn as transformers turns, at any length, cold and over a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from models.hf_config import config_from_hf
from models.rope import Rope, rope
from tests.models.hf_models import (
    GEMMA,
    SIZES,
    hf_logits,
    hf_model,
    our_decoder,
    random_ids,
    relative_error,
)
from tests.models.paged import run_pieces, run_whole

TOLERANCE = 1e-4
ORIGINAL = 32
"""Length that the scaled models were trained on."""

YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 5000.0,
    "factor": 4.0,
    "original_max_position_embeddings": ORIGINAL,
}

SCALINGS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 500.0},
    "linear": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.5},
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
    },
    "yarn": YARN,
    "yarn, no steps": {**YARN, "truncate": False, "beta_fast": 3.0, "beta_slow": 0.5},
    "yarn, factor given": {**YARN, "attention_factor": 0.75},
    "yarn, two scales": {**YARN, "mscale": 0.8, "mscale_all_dim": 0.5},
    "yarn, a short ramp": {**YARN, "truncate": False, "beta_fast": 1.5, "beta_slow": 1.1},
    "yarn, ends crossed": {**YARN, "original_max_position_embeddings": 6, "beta_slow": 8.0},
    "yarn, ends meet": {**YARN, "original_max_position_embeddings": 6},
}

DIVISORS: dict[str, list[float]] = {
    "short_factor": [1.0 + 0.1 * i for i in range(8)],
    "long_factor": [1.0 + 1.5 * i for i in range(8)],
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _llama(parameters: dict[str, Any]) -> PreTrainedConfig:
    sizes = {**SIZES, "max_position_embeddings": 4 * ORIGINAL}
    return transformers.LlamaConfig(**sizes, rope_parameters=dict(parameters))


def _dynamic() -> PreTrainedConfig:
    sizes = {**SIZES, "max_position_embeddings": ORIGINAL}
    parameters = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 3.0}
    return transformers.LlamaConfig(**sizes, rope_parameters=parameters)


def _longrope(**divisors: list[float]) -> PreTrainedConfig:
    return transformers.Phi3Config(
        **{**SIZES, "hidden_size": 64, "max_position_embeddings": 4 * ORIGINAL},
        original_max_position_embeddings=ORIGINAL,
        rope_parameters={"rope_type": "longrope", **DIVISORS, **divisors},
    )


def _ours(config: PreTrainedConfig, context: int) -> Rope:
    found = config_from_hf(config.to_dict())
    return rope(found.layers[0], found.rotary_size, context, torch.device("cpu"))


@pytest.mark.parametrize("name", [name for name in SCALINGS if name != "default"])
def test_frequencies_are_transformers(name: str) -> None:
    config = _llama(SCALINGS[name])
    ours = _ours(config, 4 * ORIGINAL)
    expected, factor = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]](config)
    torch.testing.assert_close(ours.inverse_frequencies, expected, rtol=3e-7, atol=0)
    assert ours.factor == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize("length", [1, ORIGINAL, ORIGINAL + 1, 100])
@pytest.mark.parametrize("make", [_dynamic, _longrope], ids=["dynamic", "longrope"])
def test_frequencies_for_a_length_are_transformers(make: Any, length: int) -> None:
    config = make()
    ours = _ours(config, length)
    kind = config.rope_parameters["rope_type"]
    expected, factor = ROPE_INIT_FUNCTIONS[kind](config, seq_len=length)
    torch.testing.assert_close(ours.inverse_frequencies, expected, rtol=3e-7, atol=0)
    assert ours.factor == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("length", [ORIGINAL - 1, ORIGINAL + 1, 3 * ORIGINAL + 1])
def test_beyond_the_original_length(name: str, length: int) -> None:
    model = hf_model(_llama(SCALINGS[name]))
    decoder, ids = our_decoder(model), random_ids(length)
    expected = hf_logits(model, ids)
    assert relative_error(run_whole(decoder, ids), expected) <= TOLERANCE
    assert relative_error(run_pieces(decoder, ids, [30, 1, 40]), expected) <= TOLERANCE


def test_the_scalings_differ() -> None:
    """Else the tests above could not tell one from another."""
    ids = random_ids(3 * ORIGINAL)
    found = [hf_logits(hf_model(_llama(one)), ids) for one in SCALINGS.values()]
    for i, one in enumerate(found):
        assert all(relative_error(one, other) > 10 * TOLERANCE for other in found[:i])


@pytest.mark.parametrize("make", [_dynamic, _longrope], ids=["dynamic", "longrope"])
@pytest.mark.parametrize("length", [ORIGINAL - 1, ORIGINAL, ORIGINAL + 1, 3 * ORIGINAL])
def test_scalings_that_depend_on_the_length(make: Any, length: int) -> None:
    """A decoder opened for a length does what a cold run of that length does, over a prefix too."""
    model = hf_model(make())
    decoder, ids = our_decoder(model, context=length), random_ids(length)
    expected = hf_logits(model, ids)
    assert relative_error(run_whole(decoder, ids), expected) <= TOLERANCE
    assert relative_error(run_pieces(decoder, ids, [20, 11]), expected) <= TOLERANCE


def test_a_short_sequence_of_a_decoder_opened_long_has_the_long_divisors() -> None:
    """Its keys stay right when it grows."""
    model = hf_model(_longrope())
    always_long = hf_model(_longrope(short_factor=DIVISORS["long_factor"]))
    decoder, ids = our_decoder(model), random_ids(ORIGINAL - 3)
    found = run_whole(decoder, ids)
    assert relative_error(found, hf_logits(always_long, ids)) <= TOLERANCE
    assert relative_error(found, hf_logits(model, ids)) > TOLERANCE


@pytest.mark.parametrize(
    ("make", "same", "other"),
    [(_longrope, (40, 128), 32), (_dynamic, (8, ORIGINAL), 64), (_longrope, (1, ORIGINAL), 33)],
)
def test_keys_of_different_contexts_do_not_mix(
    make: Any, same: tuple[int, int], other: int
) -> None:
    model = hf_model(make())
    rules = [our_decoder(model, context=one).key_rule for one in (*same, other)]
    assert rules[0] == rules[1] != rules[2]


def test_gemma_3_scales_the_layers_that_see_everything() -> None:
    sizes = {**GEMMA, "max_position_embeddings": 4 * ORIGINAL}
    parameters = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1_000_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 777.0},
    }
    model = hf_model(
        transformers.Gemma3TextConfig(**sizes, sliding_window_pattern=3, rope_parameters=parameters)
    )
    decoder, ids = our_decoder(model), random_ids(70)
    expected = hf_logits(model, ids)
    assert relative_error(run_whole(decoder, ids), expected) <= TOLERANCE
    assert relative_error(run_pieces(decoder, ids, [33, 30]), expected) <= TOLERANCE
