"""Tiny models with random weights, written as GGUF files: one for each way in which layers
remember.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

VOCAB = 96
_WIDTH = 64
_FEED = 96
_LAYERS = 2
# The sixth layer of Gemma 3 is the first one that sees everything.
_WINDOW_LAYERS = 6


class _Writer:
    def __init__(
        self, path: Path, arch: str, layers: int = _LAYERS, tensors_per_part: int = 0
    ) -> None:
        """`tensors_per_part`: 0 writes one file, `path`; more a set of parts named after it."""
        self._path = path
        self.file = gguf.GGUFWriter(path, arch, split_max_tensors=tensors_per_part)
        self._random = np.random.default_rng(7)
        self.file.add_vocab_size(VOCAB)
        self.file.add_tokenizer_model("no_vocab")
        self.file.add_context_length(8192)
        self.file.add_embedding_length(_WIDTH)
        self.file.add_block_count(layers)
        self.file.add_layer_norm_rms_eps(1e-5)

    def random(self, name: str, *shape: int, scale: float = 0.3) -> None:
        self.file.add_tensor(name, (scale * self._random.standard_normal(shape)).astype(np.float32))

    def ones(self, name: str, *shape: int) -> None:
        self.file.add_tensor(name, np.ones(shape, np.float32))

    def close(self) -> None:
        self.file.write_header_to_file(path=self._path)
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()


def write_llama(path: Path, head_size: int = 32, tensors_per_part: int = 0) -> Path:
    """Plain attention in every layer."""
    writer = _Writer(path, "llama", tensors_per_part=tensors_per_part)
    _attention_facts(writer, heads=2, kv_heads=2, head_size=head_size)
    _embedding(writer)
    for layer in range(_LAYERS):
        _norm(writer, layer, "attn_norm")
        _attention(writer, layer, heads=2, kv_heads=2, head_size=head_size)
        _feed_forward(writer, layer)
    writer.close()
    return path


def write_window(path: Path, window: int = 64) -> Path:
    """Sliding-window attention in most layers (Gemma 3: every sixth layer sees everything)."""
    writer = _Writer(path, "gemma3", _WINDOW_LAYERS)
    _attention_facts(writer, heads=2, kv_heads=1, head_size=32)
    writer.file.add_sliding_window(window)
    _embedding(writer)
    for layer in range(_WINDOW_LAYERS):
        for name in ("attn_norm", "post_attention_norm", "post_ffw_norm"):
            _norm(writer, layer, name)
        _attention(writer, layer, heads=2, kv_heads=1, head_size=32)
        writer.ones(f"blk.{layer}.attn_q_norm.weight", 32)
        writer.ones(f"blk.{layer}.attn_k_norm.weight", 32)
        _feed_forward(writer, layer)
    writer.close()
    return path


def write_experts(path: Path, window: int = 64) -> Path:
    """Attention sinks, experts, and a window in every other layer (gpt-oss)."""
    experts = 4
    writer = _Writer(path, "gpt-oss")
    _attention_facts(writer, heads=2, kv_heads=1, head_size=32)
    writer.file.add_sliding_window(window)
    writer.file.add_expert_count(experts)
    writer.file.add_expert_used_count(2)
    writer.file.add_expert_feed_forward_length(_FEED)
    _embedding(writer)
    writer.random("output.weight", VOCAB, _WIDTH)
    for layer in range(_LAYERS):
        block = f"blk.{layer}"
        _norm(writer, layer, "attn_norm")
        _norm(writer, layer, "post_attention_norm")
        _attention(writer, layer, heads=2, kv_heads=1, head_size=32)
        for name, size in (("q", 64), ("k", 32), ("v", 32), ("output", _WIDTH)):
            writer.random(f"{block}.attn_{name}.bias", size)
        writer.random(f"{block}.attn_sinks.weight", 2)
        writer.random(f"{block}.ffn_gate_inp.weight", experts, _WIDTH)
        writer.random(f"{block}.ffn_gate_inp.bias", experts)
        for name, rows, columns in (
            ("gate", _FEED, _WIDTH),
            ("up", _FEED, _WIDTH),
            ("down", _WIDTH, _FEED),
        ):
            writer.random(f"{block}.ffn_{name}_exps.weight", experts, rows, columns)
            writer.random(f"{block}.ffn_{name}_exps.bias", experts, rows)
    writer.close()
    return path


def write_mamba(path: Path) -> Path:
    """A running state in every layer, no attention."""
    inner, state, rank, kernel = 2 * _WIDTH, 16, 4, 4
    writer = _Writer(path, "mamba")
    for add, value in (
        (writer.file.add_ssm_conv_kernel, kernel),
        (writer.file.add_ssm_inner_size, inner),
        (writer.file.add_ssm_state_size, state),
        (writer.file.add_ssm_time_step_rank, rank),
        (writer.file.add_feed_forward_length, 0),
        (writer.file.add_head_count, 0),
    ):
        add(value)
    _embedding(writer)
    for layer in range(_LAYERS):
        block = f"blk.{layer}"
        _norm(writer, layer, "attn_norm")
        writer.random(f"{block}.ssm_in.weight", 2 * inner, _WIDTH)
        writer.random(f"{block}.ssm_conv1d.weight", inner, kernel)
        writer.random(f"{block}.ssm_conv1d.bias", inner)
        writer.random(f"{block}.ssm_x.weight", rank + 2 * state, inner)
        writer.random(f"{block}.ssm_dt.weight", inner, rank)
        writer.random(f"{block}.ssm_dt.bias", inner)
        writer.file.add_tensor(f"{block}.ssm_a", -np.ones((inner, state), np.float32))
        writer.ones(f"{block}.ssm_d", inner)
        writer.random(f"{block}.ssm_out.weight", _WIDTH, inner)
    writer.close()
    return path


def write_hybrid(path: Path) -> Path:
    """A running state in one layer, attention in the other (LFM2)."""
    writer = _Writer(path, "lfm2")
    _attention_facts(writer, heads=2, kv_heads=[0, 2], head_size=32)
    writer.file.add_shortconv_l_cache(3)
    writer.random("token_embd.weight", VOCAB, _WIDTH, scale=1.0)
    writer.ones("token_embd_norm.weight", _WIDTH)
    for layer in range(_LAYERS):
        _norm(writer, layer, "attn_norm")
        _feed_forward(writer, layer)
    writer.random("blk.0.shortconv.conv.weight", _WIDTH, 3)
    writer.random("blk.0.shortconv.in_proj.weight", 3 * _WIDTH, _WIDTH)
    writer.random("blk.0.shortconv.out_proj.weight", _WIDTH, _WIDTH)
    _attention(writer, 1, heads=2, kv_heads=2, head_size=32)
    writer.ones("blk.1.attn_q_norm.weight", 32)
    writer.ones("blk.1.attn_k_norm.weight", 32)
    writer.close()
    return path


def _attention_facts(
    writer: _Writer, heads: int, kv_heads: int | list[int], head_size: int
) -> None:
    writer.file.add_head_count(heads)
    writer.file.add_head_count_kv(kv_heads)
    writer.file.add_key_length(head_size)
    writer.file.add_value_length(head_size)
    writer.file.add_rope_dimension_count(head_size)
    writer.file.add_rope_freq_base(10_000.0)
    writer.file.add_feed_forward_length(_FEED)


def _embedding(writer: _Writer) -> None:
    writer.random("token_embd.weight", VOCAB, _WIDTH, scale=1.0)
    writer.ones("output_norm.weight", _WIDTH)


def _norm(writer: _Writer, layer: int, name: str) -> None:
    writer.ones(f"blk.{layer}.{name}.weight", _WIDTH)


def _attention(writer: _Writer, layer: int, heads: int, kv_heads: int, head_size: int) -> None:
    block = f"blk.{layer}"
    writer.random(f"{block}.attn_q.weight", heads * head_size, _WIDTH)
    writer.random(f"{block}.attn_k.weight", kv_heads * head_size, _WIDTH)
    writer.random(f"{block}.attn_v.weight", kv_heads * head_size, _WIDTH)
    writer.random(f"{block}.attn_output.weight", _WIDTH, heads * head_size)


def _feed_forward(writer: _Writer, layer: int) -> None:
    _norm(writer, layer, "ffn_norm")
    writer.random(f"blk.{layer}.ffn_gate.weight", _FEED, _WIDTH)
    writer.random(f"blk.{layer}.ffn_up.weight", _FEED, _WIDTH)
    writer.random(f"blk.{layer}.ffn_down.weight", _WIDTH, _FEED)
