"""Every architecture of GGUF computes what transformers computes on the same numbers; what does not
fit is refused by name before memory is taken."""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from gguf import GGMLQuantizationType
from torch import Tensor

from kernels.quantized_weight import QuantizedWeight
from models.config import ModelConfig
from models.decoder import Decoder
from models.errors import LoadingStopped, ModelFileError, UnsupportedModel
from models.gguf_config import config_from_gguf
from models.loaders.ggml_types import GGML_TYPES
from models.loaders.gguf_rows import hugging_face_order
from models.loaders.gguf_weights import load_gguf
from models.loaders.split import read_model
from models.weights import Weights
from tests.models.gguf_bytes import GGUFBytes, tiny_llama
from tests.models.gguf_bytes import Tensor as Entry
from tests.models.gguf_models import permuted, rounded, write_gguf
from tests.models.hf_models import SIZES as SMALL
from tests.models.hf_models import hf_logits, hf_model, random_ids, relative_error
from tests.models.paged import run_whole

TOLERANCE = 1e-4
LENGTH = 45

SIZES: dict[str, Any] = {**SMALL, "hidden_size": 64, "intermediate_size": 96, "head_dim": 32}
"""Rows of whole blocks of 32; heads of 32 where 64 / 4 is 16."""
GEMMA: dict[str, Any] = {**SIZES, "query_pre_attn_scalar": 32, "sliding_window": 20}
NO_HEAD = {key: value for key, value in SIZES.items() if key != "head_dim"}
EXPERTS: dict[str, Any] = {**SIZES, "num_experts_per_tok": 2}
ROPE = {"rope_theta": 10_000.0}

FAMILIES = {
    "llama": transformers.LlamaConfig(**SIZES),
    "llama with biases": transformers.LlamaConfig(**SIZES, attention_bias=True),
    "llama, tied": transformers.LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama 3": transformers.LlamaConfig(
        **SIZES,
        rope_parameters={
            **ROPE,
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    "llama, linear": transformers.LlamaConfig(
        **SIZES, rope_parameters={**ROPE, "rope_type": "linear", "factor": 4.0}
    ),
    "mixtral": transformers.MixtralConfig(**EXPERTS, num_local_experts=5, sliding_window=None),
    "qwen2": transformers.Qwen2Config(**NO_HEAD),
    "qwen3, yarn": transformers.Qwen3Config(
        **SIZES,
        rope_parameters={
            **ROPE,
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    ),
    "qwen3_moe": transformers.Qwen3MoeConfig(
        **EXPERTS, num_experts=6, moe_intermediate_size=32, norm_topk_prob=True
    ),
    "gemma2": transformers.Gemma2Config(**GEMMA),
    "gemma3": transformers.Gemma3TextConfig(**GEMMA, sliding_window_pattern=2),
    "gemma3, scaled": transformers.Gemma3TextConfig(
        **GEMMA,
        sliding_window_pattern=2,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
    "phi3 with a window": transformers.Phi3Config(**NO_HEAD, sliding_window=16),
    "phi3, partial": transformers.Phi3Config(
        **NO_HEAD, rope_parameters={**ROPE, "rope_type": "default", "partial_rotary_factor": 0.75}
    ),
    "phi3, longrope": transformers.Phi3Config(
        **NO_HEAD,
        rope_parameters={
            **ROPE,
            "rope_type": "longrope",
            "short_factor": [1.0 + 0.1 * i for i in range(8)],
            "long_factor": [1.0 + 0.7 * i for i in range(8)],
            "original_max_position_embeddings": 32,
        },
        original_max_position_embeddings=32,
    ),
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def load(path: Path, dtype: torch.dtype = torch.float32) -> tuple[ModelConfig, Weights]:
    config = config_from_gguf(read_model(path))
    return config, load_gguf(path, config, "cpu", dtype)


def logits(path: Path, ids: list[int]) -> Tensor:
    return run_whole(Decoder(*load(path)), ids)


@pytest.mark.parametrize("name", FAMILIES)
def test_numbers_as_they_are(name: str, tmp_path: Path) -> None:
    model, ids = hf_model(FAMILIES[name]), random_ids(LENGTH)
    found = logits(write_gguf(model, tmp_path / "x.gguf"), ids)
    assert relative_error(found, hf_logits(model, ids)) <= TOLERANCE


@pytest.mark.parametrize("name", ["llama with biases", "mixtral", "gemma3", "phi3 with a window"])
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_packed_blocks(name: str, kind: str, tmp_path: Path) -> None:
    """Reordered, cut and stacked while they are packed."""
    block = GGMLQuantizationType[kind]
    model, ids = hf_model(FAMILIES[name]), random_ids(LENGTH)
    path = write_gguf(model, tmp_path / "x.gguf", block)
    expected = hf_logits(rounded(model, block), ids)
    assert relative_error(logits(path, ids), expected) <= TOLERANCE


@pytest.mark.parametrize("parts", [2, 5])
def test_a_model_in_several_files(parts: int, tmp_path: Path) -> None:
    model, ids = hf_model(FAMILIES["llama"]), random_ids(LENGTH)
    first = write_gguf(model, tmp_path / "x.gguf", parts=parts)
    found = logits(first, ids)
    assert relative_error(found, hf_logits(model, ids)) <= TOLERANCE


def test_matrices_stay_packed_and_vectors_are_expanded(tmp_path: Path) -> None:
    path = write_gguf(
        hf_model(FAMILIES["llama with biases"]), tmp_path / "x.gguf", GGMLQuantizationType.Q8_0
    )
    _config, weights = load(path, torch.bfloat16)
    layer = weights.layers[0]
    for matrix in (weights.embedding, weights.output, layer.q, layer.down):
        assert isinstance(matrix, QuantizedWeight)
    for vector in (weights.norm, layer.attention_norm, layer.q_bias):
        assert isinstance(vector, Tensor)
        assert vector.dtype == torch.bfloat16


def test_a_vector_in_blocks_is_expanded(tmp_path: Path) -> None:
    file = tiny_llama(1, **_NEEDED)
    file.tensors.append(Entry("output_norm.weight", (64,), 8, size=68))
    path = file.write(tmp_path / "x.gguf")
    info = read_model(path).tensors[-1]
    with path.open("r+b") as stream:
        stream.seek(info.offset)
        stream.write((struct.pack("<e", 0.5) + bytes([3]) * 32) * 2)
    norm = load(path, torch.float16)[1].norm
    assert isinstance(norm, Tensor)
    assert norm.tolist() == [1.5] * 64
    assert norm.dtype == torch.float16


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_half_precision_is_cast(kind: str, tmp_path: Path) -> None:
    model, block = hf_model(FAMILIES["qwen3, yarn"]), GGMLQuantizationType[kind]
    path = write_gguf(model, tmp_path / "x.gguf", block)
    expected = hf_logits(rounded(model, block), random_ids(9))
    assert relative_error(logits(path, random_ids(9)), expected) <= TOLERANCE


@pytest.mark.parametrize(("heads", "head_size"), [(1, 2), (3, 8), (4, 32)])
def test_the_order_of_rows_undoes_the_converters(heads: int, head_size: int) -> None:
    rows = np.arange(heads * head_size)
    order = hugging_face_order(rows.size, head_size).numpy()
    assert permuted(rows, heads)[order].tolist() == rows.tolist()


@pytest.mark.parametrize("type_id", [12, 14, 22, 23, 39])
def test_wide_blocks_are_reordered_whole(type_id: int, tmp_path: Path) -> None:
    """Q4_K, Q6_K, IQ2_S, IQ4_XS, MXFP4, random bytes: row for row what the gguf package reads."""
    kind = GGMLQuantizationType(type_id)
    row = GGML_TYPES[type_id].byte_count(256)
    path = _wide_llama(type_id).write(tmp_path / "x.gguf")
    info = next(one for one in read_model(path).tensors if one.name == "blk.0.attn_q.weight")
    random = np.random.default_rng(type_id).integers(0, 256, (128, row), np.uint8)
    with path.open("r+b") as stream:
        stream.seek(info.offset)
        stream.write(random.tobytes())
    q = load(path)[1].layers[0].q
    assert isinstance(q, QuantizedWeight)
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(random, kind)[hugging_face_order(128, 32).numpy()]
    np.testing.assert_array_equal(q.dequantize().numpy(), expected)


def _wide_llama(type_id: int) -> GGUFBytes:
    """One layer of hidden 256, 4 heads of 32; q in blocks, all else zeros in F32."""
    file = tiny_llama(1, llama__embedding_length=256, **_NEEDED)
    for entry in file.tensors:
        outputs = "attn_output" in str(entry.name) or "ffn_down" in str(entry.name)
        entry.shape = (entry.shape[0], 256) if outputs else (256, *entry.shape[1:])
        if entry.name == "blk.0.attn_q.weight":
            entry.type, entry.size = type_id, GGML_TYPES[type_id].byte_count(128 * 256)
    file.tensors.append(Entry("output_norm.weight", (256,)))
    return file


_NEEDED: dict[str, Any] = {"llama__attention__layer_norm_rms_epsilon": 1e-5}


def _tiny(layers: int = 1, **changes: Any) -> GGUFBytes:
    file = tiny_llama(layers, **{**_NEEDED, **changes})
    file.tensors.append(Entry("output_norm.weight", (64,)))
    return file


def test_old_files_with_single_experts(tmp_path: Path) -> None:
    """`ffn_gate.0.weight` and so on: stacked in their order, also when packed."""
    file = _tiny(llama__expert_count=3, llama__expert_used_count=2)
    kept = [one for one in file.tensors if "ffn_" not in str(one.name)]
    kept += [Entry("blk.0.ffn_norm.weight", (64,)), Entry("blk.0.ffn_gate_inp.weight", (64, 3))]
    kept += [Entry(f"blk.0.ffn_gate.{i}.weight", (64, 96), 8, size=96 * 68) for i in (2, 0, 1)]
    kept += [Entry(f"blk.0.ffn_up.{i}.weight", (64, 96)) for i in range(3)]
    kept += [Entry(f"blk.0.ffn_down.{i}.weight", (96, 64)) for i in range(3)]
    file.tensors = kept
    path = file.write(tmp_path / "x.gguf")
    with path.open("r+b") as stream:
        for info in read_model(path).tensors:
            if "ffn_gate." in info.name:
                stream.seek(info.offset)
                scale = struct.pack("<e", float(info.name.split(".")[3]))
                stream.write((scale + b"\1" * 32) * (96 * 2))
    gate = load(path)[1].layers[0].experts_gate
    assert isinstance(gate, QuantizedWeight)
    assert gate.shape == (3, 96, 64)
    assert [gate[i].dequantize().unique().tolist() for i in range(3)] == [[0.0], [1.0], [2.0]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file.tensors.pop(), "output_norm.weight is missing"),
        (lambda file: file.tensors.pop(3), "blk.0.attn_k.weight is missing"),
        (
            lambda file: file.tensors.append(Entry("blk.0.attn_q.bias", (128,))),
            "blk.0.attn_k.bias is missing",
        ),
        (
            lambda file: file.tensors.append(Entry("blk.0.attn_k_norm.weight", (32,))),
            "blk.0.attn_k_norm.weight has no place",
        ),
        (
            lambda file: setattr(file.tensors[3], "shape", (64, 32)),
            "blk.0.attn_k.weight is 32 x 64; the config asks for 64 x 64",
        ),
        (
            lambda file: file.tensors.append(Entry("blk.0.attn_qkv.weight", (64, 256))),
            "blk.0.attn_qkv.weight fills the place of blk.0.attn_q.weight",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change: Any, words: str, tmp_path: Path) -> None:
    file = _tiny()
    change(file)
    with pytest.raises(ModelFileError) as caught:
        load(file.write(tmp_path / "x.gguf"))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "name", ["blk.0.ffn_gate_shexp.weight", "blk.7.attn_q.weight", "v.patch_embd.weight"]
)
def test_an_unknown_tensor_is_refused_by_name(name: str, tmp_path: Path) -> None:
    file = _tiny()
    file.tensors.append(Entry(name, (64,)))
    with pytest.raises(UnsupportedModel, match=name):
        load(file.write(tmp_path / "x.gguf"))


@pytest.mark.parametrize(("type_id", "name"), [(9, "Q8_1"), (15, "Q8_K"), (24, "I8"), (41, "Q1_0")])
def test_a_type_without_a_decoder_is_refused_by_name(
    type_id: int, name: str, tmp_path: Path
) -> None:
    path = _wide_llama(type_id).write(tmp_path / "x.gguf")
    with pytest.raises(UnsupportedModel) as caught:
        load(path)
    assert f"blk.0.attn_q.weight has the storage type {name}" in str(caught.value)


def test_progress_counts_all_bytes_and_ends_full(tmp_path: Path) -> None:
    path, seen = _tiny().write(tmp_path / "x.gguf"), list[tuple[int, int]]()
    files = read_model(path)
    load_gguf(
        path, config_from_gguf(files), "cpu", torch.float32, lambda *at: seen.append(at) is None
    )
    total = sum(tensor.byte_count for tensor in files.tensors)
    assert seen[0] == (0, total)
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_stopped_load_keeps_nothing(share: float, tmp_path: Path) -> None:
    path = _tiny(3).write(tmp_path / "x.gguf")
    config = config_from_gguf(read_model(path))
    before = _live_tensors()
    with pytest.raises(LoadingStopped) as caught:
        load_gguf(path, config, "cpu", torch.bfloat16, lambda done, total: done < share * total)
    assert _live_tensors() == before, caught
    assert load_gguf(path, config, "cpu", torch.bfloat16).norm.dtype == torch.bfloat16


def _live_tensors() -> int:
    gc.collect()
    return sum(type(one) is Tensor for one in gc.get_objects())
