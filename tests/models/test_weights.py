"""Checkpoints of every family: each parameter is used exactly once, anything else is refused."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from kernels.embedding import embed
from kernels.quantized_weight import QuantizedWeight
from models.decoder import Decoder
from models.errors import ModelFileError, UnsupportedModel
from models.hf_config import config_from_hf
from models.hf_names import hf_name, pieces_of
from models.parameters import parameter_shapes
from models.weights import LayerWeights, Weights, weights_from_state
from tests.models.hf_models import (
    FAMILIES,
    SIZES,
    hf_model,
    random_ids,
    relative_error,
)
from tests.models.paged import run_whole

State = dict[str, Tensor]


def _state(name: str) -> State:
    return hf_model(FAMILIES[name]).state_dict()


def _named(weights: Weights) -> dict[str, Tensor]:
    """Every tensor by its place; a tied output only once."""
    found: dict[str, Tensor] = {"embedding": weights.embedding, "norm": weights.norm}  # type: ignore[dict-item]
    if weights.output is not weights.embedding:
        found["output"] = weights.output  # type: ignore[assignment]
    for index, layer in enumerate(weights.layers):
        for field in fields(LayerWeights):
            value = getattr(layer, field.name)
            if value is not None:
                found[f"layers.{index}.{field.name}"] = value
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_every_value_of_the_checkpoint_is_somewhere_once(name: str) -> None:
    model = hf_model(FAMILIES[name])
    config = config_from_hf(model.config.to_dict())
    found = _named(weights_from_state(model.state_dict(), config))
    used = {
        key: one
        for key, one in model.named_parameters()
        if "vision_tower" not in key and "multi_modal" not in key
    }
    assert sum(one.numel() for one in found.values()) == sum(one.numel() for one in used.values())
    values = torch.cat([one.flatten() for one in found.values()]).sort().values
    expected = torch.cat([one.detach().flatten() for one in used.values()]).sort().values
    assert torch.equal(values, expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_shapes_follow_from_the_config(name: str) -> None:
    config = config_from_hf(FAMILIES[name].to_dict())
    found = _named(weights_from_state(_state(name), config))
    shapes = {str(slot): shape for slot, shape in parameter_shapes(config).items()}
    assert {key: tuple(one.shape) for key, one in found.items()} == shapes


@pytest.mark.parametrize("name", FAMILIES)
def test_a_saved_folder_holds_the_same(name: str, tmp_path: Path) -> None:
    """Files have older names than modules: experts lie one by one there."""
    model = hf_model(FAMILIES[name])
    config = config_from_hf(model.config.to_dict())
    model.save_pretrained(tmp_path)
    saved = _named(weights_from_state(load_file(tmp_path / "model.safetensors"), config))
    held = _named(weights_from_state(model.state_dict(), config))
    assert saved.keys() == held.keys()
    assert all(torch.equal(saved[key], held[key]) for key in held)


def _refusal(state: State, name: str) -> str:
    config = config_from_hf(FAMILIES[name].to_dict())
    with pytest.raises(ModelFileError) as caught:
        weights_from_state(state, config)
    return str(caught.value)


@pytest.mark.parametrize("name", ["llama with biases", "gemma3", "phi3", "mixtral", "qwen3_moe"])
def test_what_is_missing_is_named(name: str) -> None:
    state = _state(name)
    for key in state:
        less = {one: value for one, value in state.items() if one != key}
        if key == "lm_head.weight" and FAMILIES[name].tie_word_embeddings:
            continue
        assert key in _refusal(less, name)


def test_what_is_unknown_is_named() -> None:
    for stray in ("model.layers.0.self_attn.sinks", "model.layers.3.mlp.up_proj.weight", "extra"):
        config = config_from_hf(FAMILIES["llama"].to_dict())
        with pytest.raises(UnsupportedModel, match=stray):
            weights_from_state({**_state("llama"), stray: torch.ones(1)}, config)


def test_a_bias_that_the_config_does_not_know_is_named() -> None:
    stray = "model.layers.1.self_attn.o_proj.bias"
    assert stray in _refusal({**_state("llama"), stray: torch.ones(48)}, "llama")


def test_a_place_filled_twice_is_named() -> None:
    state = _state("mixtral")
    stray = "model.layers.0.block_sparse_moe.gate.weight"
    assert stray in _refusal({**state, stray: torch.ones(5, 48)}, "mixtral")


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    hf_model(FAMILIES["mixtral"]).save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    del state["model.layers.2.block_sparse_moe.experts.3.w2.weight"]
    said = _refusal(state, "mixtral")
    assert "Expert 3" in said
    assert "layers.2" in said


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("llama", "model.layers.1.self_attn.k_proj.weight"),
        ("llama", "model.norm.weight"),
        ("phi3", "model.layers.1.self_attn.qkv_proj.weight"),
        ("phi3", "model.layers.0.mlp.gate_up_proj.weight"),
        ("qwen3_moe", "model.layers.0.mlp.experts.gate_up_proj"),
    ],
)
def test_a_wrong_shape_is_named(name: str, key: str) -> None:
    state = _state(name)
    larger = torch.cat([state[key], state[key][..., :1]], -1)
    assert key in _refusal({**state, key: larger}, name)
    longer = torch.cat([state[key]] * 2, max(state[key].ndim - 2, 0))
    assert key in _refusal({**state, key: longer}, name)


def test_old_files_keep_derived_values() -> None:
    config = config_from_hf(FAMILIES["llama"].to_dict())
    state = _state("llama")
    old = {**state, "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    assert (
        _named(weights_from_state(old, config)).keys()
        == _named(weights_from_state(state, config)).keys()
    )


def test_a_tied_output_that_is_in_the_file_too() -> None:
    config = config_from_hf(FAMILIES["llama, tied"].to_dict())
    state = _state("llama, tied")
    twice = {**state, "lm_head.weight": state["model.embed_tokens.weight"].clone()}
    weights = weights_from_state(twice, config)
    assert weights.output is weights.embedding
    other = {**state, "lm_head.weight": torch.zeros(SIZES["vocab_size"], 48)}
    assert weights_from_state(other, config).output is not weights.embedding


@pytest.mark.parametrize("name", FAMILIES)
def test_names_there_and_back(name: str) -> None:
    """The name that a message shows is one that would be read."""
    config = config_from_hf(FAMILIES[name].to_dict())
    for slot in parameter_shapes(config):
        assert slot in {piece.slot for piece in pieces_of(hf_name(slot, config), config)}


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "llama"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_embedding_is_scaled_as_transformers_rounds(name: str, dtype: torch.dtype) -> None:
    """Gemma's factor, the root of the width, is rounded to the model's dtype first."""
    model = hf_model(FAMILIES[name]).to(dtype)
    scale = config_from_hf(model.config.to_dict()).embedding_scale
    table, tokens = model.get_input_embeddings(), torch.tensor(random_ids(30))
    assert torch.equal(embed(tokens, table.weight, scale, dtype), table(tokens))


def _packed(matrix: Tensor) -> QuantizedWeight:
    """The values kept as F16 blocks, whose bytes are the numbers themselves."""
    data = matrix.half().contiguous().view(torch.uint8)
    return QuantizedWeight(data, "F16", tuple(matrix.shape))


@pytest.mark.parametrize("name", ["llama, tied", "gemma3", "qwen3_moe, partly dense"])
def test_packed_matrices_compute_what_plain_ones_do(name: str) -> None:
    """Embedding, output, projections and stacks of experts alike."""
    model = hf_model(FAMILIES[name])
    config = config_from_hf(model.config.to_dict())
    plain = weights_from_state(
        {key: one.half().float() for key, one in model.state_dict().items()}, config
    )
    kept = {field.name for field in fields(LayerWeights)} - {"norm"}
    layers = []
    for layer in plain.layers:
        values = {key: getattr(layer, key) for key in kept}
        layers.append(
            LayerWeights(
                **{
                    key: _packed(one) if one is not None and one.ndim > 1 else one
                    for key, one in values.items()
                }
            )
        )
    embedding = _packed(plain.embedding)  # type: ignore[arg-type]
    output = embedding if config.tied else _packed(plain.output)  # type: ignore[arg-type]
    packed = Weights(embedding, tuple(layers), plain.norm, output)
    ids = random_ids(21)
    expected = run_whole(Decoder(config, plain), ids)
    found = run_whole(Decoder(config, packed), ids)
    assert relative_error(found, expected) <= 1e-6


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model.", "model."])
def test_the_text_part_under_any_of_its_prefixes(prefix: str) -> None:
    """Models with images changed theirs over the years; the parts that see are left out."""
    config = config_from_hf(FAMILIES["gemma3 with images"].to_dict())
    state = _state("gemma3 with images")
    renamed = {key.replace("model.language_model.", prefix): one for key, one in state.items()}
    assert any(key.startswith(f"{prefix}layers.") for key in renamed)
    found = _named(weights_from_state(renamed, config))
    expected = _named(weights_from_state(state, config))
    assert all(torch.equal(found[key], expected[key]) for key in expected)
