"""What is predicted from a config is what tensors really take."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import PreTrainedConfig

from kernels.dequantize import BLOCK_TYPES
from kernels.kv_layout import KV_FORMATS
from kernels.quantized_weight import QuantizedWeight
from models.decoder import Decoder
from models.decoder_memory import (
    PassSize,
    compute_bytes,
    kv_bytes_per_token,
    parameter_count,
    weights_bytes,
)
from models.hf_config import config_from_hf
from models.weights import LayerWeights, Matrix, Weights
from tests.models.hf_models import FAMILIES, hf_model, our_decoder, random_ids
from tests.models.paged import PagedRun
from tests.models.peak_bytes import PeakBytes

BLOCK = 64
SIZES: dict[str, Any] = {
    "vocab_size": 1500,
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 2048,
    "pad_token_id": 0,
}
GEMMA: dict[str, Any] = {**SIZES, "query_pre_attn_scalar": 32, "sliding_window": 64}
WIDE: dict[str, Any] = {**SIZES, "intermediate_size": 2560, "num_attention_heads": 4}

CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": transformers.LlamaConfig(**SIZES),
    "a wide feed-forward": transformers.Qwen3Config(**WIDE),
    "windows everywhere": transformers.MistralConfig(**SIZES, sliding_window=100),
    "gemma2": transformers.Gemma2Config(**GEMMA),
    "gemma3": transformers.Gemma3TextConfig(**GEMMA, sliding_window_pattern=2),
    "all experts used": transformers.Qwen3MoeConfig(
        **SIZES, num_experts=2, num_experts_per_tok=2, moe_intermediate_size=1024
    ),
}

PASSES = {
    "a prompt": (0, 256, 1),
    "a chunk": (450, 60, 1),
    "a token": (500, 1, 1),
    "many logits": (0, 200, 200),
}
"""Tokens held, tokens added, rows whose logits are wanted."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=CONFIGS, ids=str)
def decoder(request: pytest.FixtureRequest) -> Decoder:
    return our_decoder(hf_model(CONFIGS[request.param]))


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_are_exact(name: str) -> None:
    decoder = our_decoder(hf_model(FAMILIES[name]))
    held = {id(one): one for one in _matrices(decoder.weights)}
    assert weights_bytes(decoder.config, 4) == sum(one.nbytes for one in held.values())
    assert parameter_count(decoder.config) * 2 == weights_bytes(decoder.config, 2)


def _matrices(weights: Weights) -> list[Tensor]:
    layers = [getattr(one, key) for one in weights.layers for key in LayerWeights.__slots__]
    found = [weights.embedding, weights.norm, weights.output, *layers]
    return [one for one in found if isinstance(one, Tensor)]


@pytest.mark.parametrize("kv_format", KV_FORMATS)
def test_kv_is_exact(decoder: Decoder, kv_format: str) -> None:
    run = PagedRun(decoder, capacity=10 * BLOCK, format_name=kv_format, block=BLOCK)
    per_token = kv_bytes_per_token(decoder.config, kv_format, BLOCK)
    assert sum(pool.data.nbytes for pool in run.pools) == 11 * BLOCK * per_token


def _measured(decoder: Decoder, held: int, added: int, wanted: int, kv_format: str) -> int:
    run = PagedRun(decoder, capacity=held + added, format_name=kv_format, block=BLOCK)
    if held:
        run.step(random_ids(held), wanted=[])
    with PeakBytes() as peak:
        run.step(random_ids(added), wanted=range(added - wanted, added))
    return peak.peak


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("kv_format", ["f32", "q8", "k8v4"])
def test_compute_of_a_pass(decoder: Decoder, name: str, kv_format: str) -> None:
    held, added, wanted = PASSES[name]
    size = PassSize(added, wanted, held + added)
    predicted = compute_bytes(decoder.config, size, 4, kv_format)
    measured = _measured(decoder, held, added, wanted, kv_format)
    assert predicted == pytest.approx(measured, rel=0.03)


def test_compute_in_half_precision() -> None:
    for name in CONFIGS:
        decoder = our_decoder(hf_model(CONFIGS[name]).bfloat16())
        for held, added, wanted in PASSES.values():
            size = PassSize(added, wanted, held + added)
            predicted = compute_bytes(decoder.config, size, 2, "bf16")
            measured = _measured(decoder, held, added, wanted, "bf16")
            assert predicted == pytest.approx(measured, rel=0.03)


def test_experts_take_at_most_what_is_predicted() -> None:
    """Which experts a token goes to is not known before."""
    decoder = our_decoder(
        hf_model(transformers.MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2))
    )
    for held, added, wanted in PASSES.values():
        size = PassSize(added, wanted, held + added)
        predicted = compute_bytes(decoder.config, size, 4, "f32")
        assert _measured(decoder, held, added, wanted, "f32") <= 1.03 * predicted


@pytest.mark.parametrize("type_name", ["Q8_0", "Q4_K", "Q6_K", "Q4_0"])
def test_compute_with_packed_weights(type_name: str) -> None:
    plain = our_decoder(hf_model(CONFIGS["llama"]))
    decoder = Decoder(plain.config, _packed_all(plain.weights, type_name))
    for held, added, wanted in PASSES.values():
        size = PassSize(added, wanted, held + added)
        predicted = compute_bytes(decoder.config, size, 4, "f32", packed={type_name})
        measured = _measured(decoder, held, added, wanted, "f32")
        # Types need more or less to be decoded; the most is predicted.
        assert measured <= 1.03 * predicted <= 1.75 * measured


def _packed_all(weights: Weights, type_name: str) -> Weights:
    """Zeros will do: only sizes count."""
    layers = tuple(
        LayerWeights(
            **{
                key: _packed(getattr(one, key), type_name)
                for key in LayerWeights.__slots__
                if getattr(one, key) is not None
            }
        )
        for one in weights.layers
    )
    embedding, output = (_packed(one, type_name) for one in (weights.embedding, weights.output))
    return Weights(embedding, layers, weights.norm, output)


def _packed(matrix: Matrix, type_name: str) -> Any:
    if isinstance(matrix, QuantizedWeight) or matrix.ndim < 2 or matrix.shape[-1] % 256:
        return matrix
    kind = BLOCK_TYPES[type_name]
    shape = (*matrix.shape[:-1], matrix.shape[-1] // kind.values * kind.size)
    return QuantizedWeight(torch.zeros(shape, dtype=torch.uint8), type_name, tuple(matrix.shape))


def test_a_model_of_everyday_size() -> None:
    """Llama 3.1 8B in bf16: 8.03 billion parameters, 128 KiB of KV for each token."""
    config = config_from_hf(
        {
            "model_type": "llama",
            "vocab_size": 128_256,
            "hidden_size": 4096,
            "intermediate_size": 14_336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131_072,
        }
    )
    assert parameter_count(config) == 8_030_261_248
    assert kv_bytes_per_token(config, "bf16") == 131_072
    assert compute_bytes(config, PassSize(512, 1, 4096), 2, "bf16") < 2**28


def test_needs_no_tensor_library() -> None:
    code = "import models.decoder_memory, sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
