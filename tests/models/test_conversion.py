"""Converted folders on llama.cpp against transformers, and how a conversion ends early."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import PreTrainedConfig

from models.conversion import gguf_file, rows
from models.conversion.convert import convert_folder
from models.conversion.rope_scaling import rope_tensors
from models.conversion.tensors import Kind
from models.decoder import Decoder
from models.description import describe
from models.gguf_config import config_from_gguf
from models.hf_config import config_from_hf
from models.loaders.gguf import read_gguf
from models.loaders.gguf_weights import load_gguf
from models.loaders.split import read_model
from tests.models.agreement import Agreement, agreement
from tests.models.conversion_folders import (
    LLAMA_3_ROPE,
    YARN_ROPE,
    byte_level,
    half,
    rope,
    tiny_llama,
    write_model,
)
from tests.models.hf_models import FAMILIES, GEMMA, SIZES, hf_logits
from tests.models.llama_logits import LlamaModel
from tests.models.paged import run_whole

torch.set_num_threads(1)

LONG = [1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
SHORT = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]
ONE_HEAD: dict[str, Any] = {**GEMMA, "query_pre_attn_scalar": 16}
"""llama.cpp takes the scale of Gemma's attention from the size of a head."""
PHI: dict[str, Any] = {**SIZES, "hidden_size": 64}


LONG_ROPE = rope(
    rope_type="longrope",
    factor=4.0,
    short_factor=SHORT,
    long_factor=LONG,
    original_max_position_embeddings=32,
)


def one_head_scale(config: PreTrainedConfig) -> PreTrainedConfig:
    config = copy.deepcopy(config)
    config.text_config.query_pre_attn_scalar = 16
    return config


CONFIGS: dict[str, PreTrainedConfig] = {
    **{
        name: FAMILIES[name]
        for name in (
            "llama",
            "llama with biases",
            "llama, tied",
            "mistral without a window",
            "qwen2",
            "qwen3",
            "mixtral",
            "qwen3_moe",
        )
    },
    "gemma3 with images": one_head_scale(FAMILIES["gemma3 with images"]),
    "phi3": transformers.Phi3Config(**PHI, partial_rotary_factor=0.75),
    "gemma2": transformers.Gemma2Config(**ONE_HEAD),
    "gemma3": transformers.Gemma3TextConfig(
        **ONE_HEAD, sliding_window_pattern=2, final_logit_softcapping=20.0
    ),
    "gemma3, the usual pattern": transformers.Gemma3TextConfig(
        **{**ONE_HEAD, "num_hidden_layers": 7}
    ),
    "llama, linear": transformers.LlamaConfig(**SIZES, **rope(rope_type="linear", factor=4.0)),
    "llama, llama3": transformers.LlamaConfig(**SIZES, **LLAMA_3_ROPE),
    "llama, yarn": transformers.LlamaConfig(**SIZES, **YARN_ROPE),
    "qwen3, yarn of its own strength": transformers.Qwen3Config(
        **SIZES, rope_parameters={**YARN_ROPE["rope_parameters"], "attention_factor": 1.3}
    ),
    "llama, longrope": transformers.LlamaConfig(**SIZES, **LONG_ROPE),
    "phi3, longrope": transformers.Phi3Config(
        **PHI, original_max_position_embeddings=32, **LONG_ROPE
    ),
    "gemma3, linear": transformers.Gemma3TextConfig(
        **ONE_HEAD,
        sliding_window_pattern=2,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20_000.0},
        },
    ),
}
GELU_TABLE = 1e-3
"""llama.cpp looks Gemma's GELU up in a table of 16-bit floats."""


def compared(model: Any, path: Path, length: int = 50) -> Agreement:
    describe(path)
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(10, 500, (length,), generator=random).tolist()
    with LlamaModel(path) as llama:
        found = torch.from_numpy(llama.logits(ids, range(length)))
    return agreement(found, hf_logits(model, ids))


@pytest.mark.parametrize("name", CONFIGS)
def test_llama_cpp_computes_the_same_logits(name: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", CONFIGS[name], byte_level("llama-bpe"))
    result = compared(model, convert_folder(tmp_path / "m", tmp_path, "F32"))
    assert result.error < (GELU_TABLE if "gemma" in name else 1e-5), result
    assert result.top1 == 1


@pytest.mark.parametrize("name", CONFIGS)
def test_our_own_decoder_reads_the_file_the_same(name: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", CONFIGS[name], byte_level("llama-bpe"))
    files = read_model(convert_folder(tmp_path / "m", tmp_path, "F32"))
    config = config_from_gguf(files)
    weights = load_gguf(files.first.path, config, "cpu", torch.float32)
    ids = list(range(10, 60))
    found = run_whole(Decoder(config, weights), ids)
    assert agreement(found, hf_logits(model, ids)).error < 1e-5


@pytest.mark.parametrize(("kind", "kld"), [("F16", 1e-4), ("BF16", 2e-3), ("Q8_0", 2e-2)])
def test_stored_in_fewer_bits_it_stays_close(kind: Kind, kld: float, tmp_path: Path) -> None:
    config = transformers.LlamaConfig(**{**SIZES, "hidden_size": 64, "intermediate_size": 96})
    model = write_model(tmp_path / "m", config, byte_level("llama-bpe"))
    path = convert_folder(tmp_path / "m", tmp_path, kind)
    types = {one.name: one.type.name for one in read_gguf(path).tensors}
    assert types["blk.0.ffn_down.weight"] == types["token_embd.weight"] == kind
    assert types["blk.0.attn_norm.weight"] == "F32"
    result = compared(model, path)
    assert result.kld < kld
    assert result.top1 >= 0.9


def test_rows_that_are_no_whole_blocks_are_stored_as_f16(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "m")  # rows of 48
    path = convert_folder(tmp_path / "m", tmp_path, "Q8_0")
    types = {one.name: one.type.name for one in read_gguf(path).tensors}
    assert types["blk.0.attn_q.weight"] == "F16"
    assert types["blk.0.attn_output.weight"] == "Q8_0"  # rows of 64


def test_shards_and_dtypes_do_not_matter(tmp_path: Path) -> None:
    config = FAMILIES["qwen3_moe"]
    model = half(write_model(tmp_path / "m", config, byte_level("llama-bpe")))
    model.save_pretrained(tmp_path / "m")
    whole = convert_folder(tmp_path / "m", tmp_path / "whole", "F32").read_bytes()
    model.half().save_pretrained(tmp_path / "m", max_shard_size="50KB")
    (tmp_path / "m" / "model.safetensors").unlink()
    halves = convert_folder(tmp_path / "m", tmp_path / "halves", "F32").read_bytes()
    assert whole == halves


def test_memory_does_not_grow_with_a_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_llama(tmp_path / "m")
    whole = convert_folder(tmp_path / "m", tmp_path / "whole", "F32").read_bytes()
    monkeypatch.setattr("models.conversion.rows.CHUNK_VALUES", 100)
    seen: list[int] = []
    stored = gguf_file._stored
    monkeypatch.setattr(
        gguf_file, "_stored", lambda chunk, one: seen.append(chunk.size) or stored(chunk, one)
    )
    pieces = convert_folder(tmp_path / "m", tmp_path / "pieces", "F32").read_bytes()
    assert max(seen) <= 100
    assert pieces == whole


@pytest.mark.parametrize(
    ("shape", "block"),
    [((24, 40), [24, 40]), ((1, 1000), None), ((1000, 1000), None)],
    ids=["of blocks", "of rows", "of the whole"],
)
def test_fp8_matrices_are_multiplied_by_their_scales(
    shape: tuple[int, int], block: list[int] | None, tmp_path: Path
) -> None:
    model = tiny_llama(tmp_path / "m", hidden_size=64)
    state = load_file(tmp_path / "m" / "model.safetensors")
    for name in [name for name in state if name.endswith("proj.weight")]:
        rows, columns = state[name].shape
        scale = torch.rand(-(-rows // shape[0]), -(-columns // shape[1])) + 0.01
        wide = scale.repeat_interleave(shape[0], 0)[:rows]
        wide = wide.repeat_interleave(shape[1], 1)[:, :columns]
        state[name] = (state[name] / wide).clamp(-448, 448).to(torch.float8_e4m3fn)
        state[f"{name}_scale_inv"] = scale
        model.get_parameter(name).data = state[name].float() * wide
    save_file(state, tmp_path / "m" / "model.safetensors")
    config = model.config.to_dict()
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": block}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    result = compared(model, convert_folder(tmp_path / "m", tmp_path, "F32"))
    assert result.error < 1e-5


def test_every_8_bit_value_is_right() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    expected = codes.view(torch.float8_e4m3fn).float().numpy()
    np.testing.assert_array_equal(rows._e4m3(), expected)


def test_a_window_that_llama_cpp_does_not_know_limits_the_context(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", FAMILIES["mistral"], byte_level("llama-bpe"))
    path = convert_folder(tmp_path / "m", tmp_path, "F32")
    described = describe(path)
    assert described.ctx_train == model.config.sliding_window == 9
    assert described.context_before_conversion == model.config.max_position_embeddings > 9
    assert compared(model, path, 9).error < 1e-5


def test_llama_3s_divisors_are_those_of_transformers() -> None:
    config = transformers.LlamaConfig(**SIZES, **LLAMA_3_ROPE)
    scaled = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config).inv_freq
    plain = 10_000.0 ** -(torch.arange(0, 16, 2) / 16)
    found = rope_tensors(config_from_hf(config.to_dict()))["rope_freqs.weight"]
    np.testing.assert_allclose(found, (plain / scaled).numpy(), rtol=1e-5)
