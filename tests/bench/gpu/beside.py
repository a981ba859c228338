"""The same shapes in other people's code: torch's attention, and transformers' generate."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.nn import functional

from models.config import ModelConfig
from tests.bench.gpu.rig import Rig

PROMPT = 16
LEAST_S = 1e-9
"""Of a token: a difference of two times may be none in a dry run."""


def torch_attention(rig: Rig, config: ModelConfig, length: int, new: int = 1) -> dict[str, float]:
    """scaled_dot_product_attention of every layer on contiguous bf16 keys, as milliseconds."""
    shape = len(config.layers), 1, config.kv_heads, length, config.head_size
    k = torch.randn(shape, device=rig.device, dtype=rig.dtype)
    v = torch.randn(shape, device=rig.device, dtype=rig.dtype)
    q = torch.randn(1, config.heads, new, config.head_size, device=rig.device, dtype=rig.dtype)

    def run() -> None:
        for layer in range(len(config.layers)):
            functional.scaled_dot_product_attention(
                q, k[layer], v[layer], is_causal=new > 1, enable_gqa=True
            )

    return {"length": length, "new": new, "ms": 1e3 * rig.recorded_seconds(run, 5)}


def generate(rig: Rig, config: ModelConfig, tokens: int, is_static: bool) -> dict[str, Any]:
    """Greedy writing, as seconds a token between a short and a long answer. `is_static`: with its
    static cache, which transformers compiles for on a device.
    """
    model = _model(rig, config)
    ids = torch.arange(PROMPT, device=rig.device)[None]
    how: dict[str, Any] = {"do_sample": False, "pad_token_id": 0}
    if is_static:
        how |= {"cache_implementation": "static", "disable_compile": not rig.is_gpu}

    def seconds(count: int) -> float:
        rig.sync()
        started = time.perf_counter()
        model.generate(ids, min_new_tokens=count, max_new_tokens=count, **how)
        rig.sync()
        return time.perf_counter() - started

    few = max(tokens // 4, 1)
    started = time.perf_counter()
    # The long answer first: its cache is used for the short one too, and compiled for once.
    for count in (tokens, few, tokens):
        seconds(count)
    warming = time.perf_counter() - started
    per_token = max((seconds(tokens) - seconds(few)) / (tokens - few), LEAST_S)
    return {"step_ms": 1e3 * per_token, "tokens_per_s": 1 / per_token, "warm_up_s": warming}


def _model(rig: Rig, config: ModelConfig) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    theirs = Qwen3Config(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden,
        intermediate_size=config.feed_forward,
        num_hidden_layers=len(config.layers),
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_size,
        max_position_embeddings=config.context,
        tie_word_embeddings=config.tied,
        eos_token_id=None,
        bos_token_id=None,
    )
    with torch.device(rig.device):
        before = torch.get_default_dtype()
        torch.set_default_dtype(rig.dtype)
        try:
            return Qwen3ForCausalLM(theirs).eval()
        finally:
            torch.set_default_dtype(before)
