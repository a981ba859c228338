"""`ModelConfig` in the keys of a GGUF file; what llama.cpp cannot do for a family is refused.

llama.cpp takes much from the architecture's name alone: those values are compared here, since a
file has no key for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from models.config import ModelConfig
from models.conversion.rope_scaling import add_rope
from models.description import TRAINED_CONTEXT
from models.errors import UnsupportedModel


@dataclass(frozen=True, slots=True)
class Architecture:
    name: str
    interleaved: bool = False
    """Rotated pairs lie side by side: rows of Q and K are stored in another order."""
    fused: bool = False
    """Q, K and V lie in one matrix, and so do gate and up."""
    biases: bool = False
    """Biases of Q, K, V and the output may be there."""
    gemma: bool = False
    window_period: int = 0
    """Every that many layers one sees everything, the others a window; 0: it knows no windows."""
    wide_layers: int = 0
    """Number of layers of the one size whose attention is scaled by hidden size over heads."""


ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("llama", interleaved=True, biases=True),
    "mistral": Architecture("llama", interleaved=True),
    "mixtral": Architecture("llama", interleaved=True),
    "qwen2": Architecture("qwen2", biases=True),
    "qwen3": Architecture("qwen3"),
    "qwen3_moe": Architecture("qwen3moe"),
    "phi3": Architecture("phi3", fused=True),
    "gemma2": Architecture("gemma2", gemma=True, window_period=2, wide_layers=46),
    "gemma3": Architecture("gemma3", gemma=True, window_period=6, wide_layers=62),
}


def add_hyperparameters(writer: Any, config: ModelConfig) -> None:
    """Raises UnsupportedModel naming the setting that llama.cpp cannot do."""
    kind = ARCHITECTURES[config.family]
    check_supported(config)
    writer.add_vocab_size(config.vocab_size)
    usable = usable_context(config)
    writer.add_context_length(usable)
    if usable < config.context:
        writer.add_uint32(TRAINED_CONTEXT, config.context)
    writer.add_embedding_length(config.hidden)
    writer.add_block_count(len(config.layers))
    writer.add_feed_forward_length(_feed_forward(config))
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_key_length(config.head_size)
    writer.add_value_length(config.head_size)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    add_rope(writer, config, interleaved=kind.interleaved)
    if config.experts:
        writer.add_expert_count(config.experts)
        writer.add_expert_used_count(config.experts_used)
        writer.add_expert_feed_forward_length(config.expert_feed_forward)
    if kind.window_period:
        _add_windows(writer, config, kind.window_period)
    if config.attention_cap is not None:
        writer.add_attn_logit_softcapping(config.attention_cap)
    if config.logit_cap is not None:
        writer.add_final_logit_softcapping(config.logit_cap)


def usable_context(config: ModelConfig) -> int:
    """Tokens. Where llama.cpp knows no windows of a family, the window: up to there it sees the
    same.
    """
    windows = [layer.window for layer in config.layers if layer.window is not None]
    if not windows or ARCHITECTURES[config.family].window_period:
        return config.context
    return min(config.context, *windows)


def check_supported(config: ModelConfig) -> None:
    """Raises UnsupportedModel for a setting that llama.cpp's graph of the family does not have."""
    kind = ARCHITECTURES[config.family]
    tests = (
        ("qkv_bias", config.qkv_bias and not kind.biases),
        ("output_bias", config.output_bias and config.family != "llama"),
        ("attention_scale", not _close(config.attention_scale, _attention_scale(config, kind))),
        ("embedding_scale", not _close(config.embedding_scale, _embedding_scale(config, kind))),
        ("hidden_act", (config.activation == "gelu_tanh") != kind.gemma),
        ("norm_topk_prob", bool(config.experts) and not config.normalizes_experts),
        ("decoder_sparse_step", len({layer.experts for layer in config.layers}) != 1),
        ("layers without positions", not all(layer.has_rope for layer in config.layers)),
        ("head_dim", kind.fused and config.heads * config.head_size != config.hidden),
        ("partial_rotary_factor", kind.interleaved and config.rotary_size != config.head_size),
        ("attn_logit_softcapping", (config.attention_cap is None) == (config.family == "gemma2")),
        ("final_logit_softcapping", config.family == "gemma2" and config.logit_cap is None),
    )
    for name, unsupported in tests:
        if unsupported:
            raise refuse(name, f"llama.cpp's {kind.name} does not compute with such a value.")


def refuse(name: str, text: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"The model cannot be converted: its {name} cannot be said in a GGUF file.",
        text,
        "Run it on a machine with CUDA, or take another model.",
    )


def _attention_scale(config: ModelConfig, kind: Architecture) -> float:
    wide = len(config.layers) == kind.wide_layers
    return 1 / math.sqrt(config.hidden // config.heads if wide else config.head_size)


def _embedding_scale(config: ModelConfig, kind: Architecture) -> float:
    return math.sqrt(config.hidden) if kind.gemma else 1.0


def _feed_forward(config: ModelConfig) -> int:
    return config.expert_feed_forward if config.family == "mixtral" else config.feed_forward


def _add_windows(writer: Any, config: ModelConfig, period: int) -> None:
    local = [layer.window is not None for layer in config.layers]
    windows = {layer.window for layer in config.layers if layer.window is not None}
    if len(windows) > 1:
        raise refuse("sliding_window", "It differs from layer to layer.")
    if not windows and config.family == "gemma2":
        raise refuse("sliding_window", "llama.cpp's gemma2 always has one.")
    if not windows:
        return
    writer.add_sliding_window(windows.pop())
    if local != [index % period < period - 1 for index in range(len(local))]:
        writer.add_sliding_window_pattern(local)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6)
