"""Writes a transformers model as a GGUF file by the gguf package's writer and tensor-name tables.

The conventions of llama.cpp's converter, written down a second time: Llama's q and k rows in
another order, 1 added to Gemma's norms, fused matrices and stacked experts as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from transformers import PreTrainedModel

ARCHITECTURES: dict[str, gguf.MODEL_ARCH] = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mixtral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
}


def write_gguf(
    model: PreTrainedModel,
    path: Path,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    parts: int = 1,
) -> Path:
    """`kind`: of the matrices. Returns the first part."""
    config = model.config
    arch = ARCHITECTURES[config.model_type]
    tensors = list(_tensors(model, arch))
    per_part = -(-len(tensors) // parts) if parts > 1 else 0
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch], split_max_tensors=per_part)
    _add_keys(writer, config)
    for name, values in tensors:
        if values.ndim > 1 and kind != GGMLQuantizationType.F32:
            packed = gguf.quants.quantize(values, kind)
            writer.add_tensor(name, packed, raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if parts == 1:
        return path
    return path.with_name(f"{path.stem}-00001-of-{parts:05d}.gguf")


def rounded(model: PreTrainedModel, kind: GGMLQuantizationType) -> PreTrainedModel:
    """The same model with its matrices taken through blocks and back, in place."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                packed = gguf.quants.quantize(parameter.numpy(), kind)
                parameter.copy_(torch.from_numpy(gguf.quants.dequantize(packed, kind)))
    return model


def permuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """Hugging Face's order of a head's rows -> llama.cpp's, as its converter writes it."""
    shape = rows.shape
    halves = rows.reshape(heads, 2, shape[0] // heads // 2, *shape[1:])
    return halves.swapaxes(1, 2).reshape(shape)


def _tensors(model: PreTrainedModel, arch: gguf.MODEL_ARCH) -> Iterator[tuple[str, np.ndarray]]:
    config = model.config
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        values = tensor.float().numpy()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if ".experts." in name or "mlp.gate.weight" in name:
            yield from _expert_tensors(name, values)
            continue
        if arch == gguf.MODEL_ARCH.LLAMA and ("q_proj" in name or "k_proj" in name):
            many = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            values = permuted(values, many)
        if config.model_type.startswith("gemma") and "norm" in name:
            values = values + 1
        yield names.get_name(name, try_suffixes=(".weight", ".bias")), values
    yield from _rope_tensors(config)


def _expert_tensors(name: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    layer = name.split(".")[2]
    if name.endswith("gate_up_proj"):
        gate, up = np.split(values, 2, axis=1)
        yield f"blk.{layer}.ffn_gate_exps.weight", np.ascontiguousarray(gate)
        yield f"blk.{layer}.ffn_up_exps.weight", np.ascontiguousarray(up)
    elif name.endswith("down_proj"):
        yield f"blk.{layer}.ffn_down_exps.weight", values
    else:
        yield f"blk.{layer}.ffn_gate_inp.weight", values


def _rope_tensors(config: Any) -> Iterator[tuple[str, np.ndarray]]:
    rope = config.rope_parameters
    if rope.get("rope_type") == "llama3":
        yield "rope_freqs.weight", _llama3_divisors(rope, config.head_dim)
    if rope.get("rope_type") == "longrope":
        yield "rope_factors_long.weight", np.array(rope["long_factor"], np.float32)
        yield "rope_factors_short.weight", np.array(rope["short_factor"], np.float32)


def _llama3_divisors(rope: dict[str, Any], size: int) -> np.ndarray:
    """As llama.cpp's converter computes them."""
    original, low, high = (
        rope["original_max_position_embeddings"],
        rope["low_freq_factor"],
        rope["high_freq_factor"],
    )
    found = []
    for frequency in 1.0 / rope["rope_theta"] ** (np.arange(0, size, 2) / size):
        wave = 2 * math.pi / frequency
        if wave < original / high:
            found.append(1.0)
        elif wave > original / low:
            found.append(rope["factor"])
        else:
            smooth = (original / wave - low) / (high - low)
            found.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(found, np.float32)


def _add_keys(writer: gguf.GGUFWriter, config: Any) -> None:
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    _add_rope(writer, config, head)
    if config.model_type.startswith("gemma") or config.model_type == "phi3":
        writer.add_sliding_window(config.sliding_window or 0)
    if config.model_type == "gemma3_text":
        writer.add_sliding_window_pattern(
            [kind == "sliding_attention" for kind in config.layer_types]
        )
    if cap := getattr(config, "attn_logit_softcapping", None):
        writer.add_attn_logit_softcapping(cap)
    if cap := getattr(config, "final_logit_softcapping", None):
        writer.add_final_logit_softcapping(cap)
    if many := getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None):
        writer.add_expert_count(many)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if inner := getattr(config, "moe_intermediate_size", None):
        writer.add_expert_feed_forward_length(inner)


def _add_rope(writer: gguf.GGUFWriter, config: Any, head: int) -> None:
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))
    kind = rope.get("rope_type")
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if kind == "longrope":
        original = rope["original_max_position_embeddings"]
        scale = config.max_position_embeddings / original
        writer.add_rope_scaling_orig_ctx_len(original)
        factor = math.sqrt(1 + math.log(scale) / math.log(original))
        writer.add_rope_scaling_attn_factors(factor)
