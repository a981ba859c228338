"""A GGUF header -> `ModelConfig`, for the architectures that our own decoder runs.

Needs neither torch nor the gguf package. Where a header leaves something unsaid, llama.cpp's rule
for the architecture holds. Two conventions of the format differ from Hugging Face's and show here:
Gemma's norm weights have their offset of 1 added already, and Llama's q and k rows lie in another
order (undone by `models/loaders/gguf_rows.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from models.config import LayerConfig, ModelConfig, RopeScaling
from models.errors import UnsupportedModel
from models.gguf_rope import rope_base, rope_scaling
from models.header_values import HeaderValues
from models.layers import LayerShapes, layer_shapes
from models.loaders.split import ModelFiles
from models.memory import DEFAULT_CONTEXT
from models.sizes import show_name


@dataclass(frozen=True, slots=True)
class _Family:
    """What an architecture's name alone says."""

    name: str
    gemma: bool = False
    qk_norm: bool = False
    local_rope_base: float | None = None
    """Of window layers, which are not scaled then; None: as the others."""
    wide_layers: int | None = None
    """Number of layers of the one size whose attention is scaled by hidden size over heads."""
    default_window: int | None = None
    caps: tuple[float, float] | None = None
    """Of scores and of logits, where the header has none."""


_FAMILIES: dict[str, _Family] = {
    "llama": _Family("llama"),
    "qwen2": _Family("qwen2"),
    "qwen3": _Family("qwen3", qk_norm=True),
    "qwen3moe": _Family("qwen3_moe", qk_norm=True),
    "phi3": _Family("phi3"),
    "gemma2": _Family("gemma2", gemma=True, wide_layers=46, default_window=4096, caps=(50.0, 30.0)),
    "gemma3": _Family("gemma3", gemma=True, qk_norm=True, local_rope_base=10_000.0, wide_layers=62),
}

_NEUTRAL: dict[str, tuple[object, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0, 0.0),
    "attention.max_alibi_bias": (0, 0.0),
    "attention.output_scale": (1, 1.0),
    "attention.scale": (0, 0.0),
    "attention.temperature_scale": (0, 0.0),
    "attention.value_scale": (1, 1.0),
    "embedding_scale": (0, 1, 0.0, 1.0),
    "expert_gating_func": (0, 1),
    "expert_group_count": (0, 1),
    "expert_shared_count": (0,),
    "expert_weights_norm": (True,),
    "expert_weights_scale": (0, 1, 0.0, 1.0),
    "leading_dense_block_count": (0,),
    "logit_scale": (0, 1, 0.0, 1.0),
    "nextn_predict_layers": (0,),
    "residual_scale": (0, 1, 0.0, 1.0),
    "rope.dimension_count_swa": (),
    "rope.dimension_sections": (),
    "rope.scaling.alpha": (0, 0.0),
    "rope.scaling.yarn_log_multiplier": (0, 0.0),
    "router_logit_softcapping": (0, 0.0),
    "use_parallel_residual": (False,),
}
"""Keys that would change the arithmetic, with the values that leave it as it is."""


def config_from_gguf(files: ModelFiles) -> ModelConfig:
    """The decoder that a model's header describes.

    Raises:
        UnsupportedModel: the architecture or a setting is none that our decoder knows.
        ModelFileError: a key or tensor that has to be there is missing or absurd.
    """
    header = HeaderValues(files.first)
    architecture = header.text("general.architecture")
    family = _FAMILIES.get(architecture)
    if family is None:
        raise _unknown(header, f"Its architecture {architecture[:80]!r}")
    _check_keys(header, architecture)
    shapes = layer_shapes(header, architecture)
    config = _base(files, header, architecture, family, shapes)
    config = _with_experts(config, header, architecture)
    if family.gemma:
        config = _gemma(config, header, architecture, family)
    return config


def _base(
    files: ModelFiles,
    header: HeaderValues,
    architecture: str,
    family: _Family,
    shapes: LayerShapes,
) -> ModelConfig:
    """All that does not depend on experts or on Gemma's own rules."""
    a, head_size = architecture, _head_size(header, shapes)
    rotary_size = _rotary_size(header, architecture, head_size)
    scaling = rope_scaling(files, header, architecture, rotary_size)
    names = {tensor.name: tensor for tensor in files.tensors}
    if "token_embd.weight" not in names:
        raise header.damaged("the tensor token_embd.weight is missing")
    return ModelConfig(
        family=family.name,
        vocab_size=names["token_embd.weight"].shape[-1],
        hidden=header.positive(f"{a}.embedding_length"),
        heads=_alike(header, f"{a}.attention.head_count", (shapes.heads,)),
        kv_heads=_alike(header, f"{a}.attention.head_count_kv", shapes.kv_heads),
        head_size=head_size,
        feed_forward=_alike(header, f"{a}.feed_forward_length", (0,)),
        layers=_layers(header, architecture, family, shapes, scaling),
        context=header.integer(f"{a}.context_length") or DEFAULT_CONTEXT,
        norm_eps=_norm_eps(header, architecture),
        qkv_bias="blk.0.attn_q.bias" in names or "blk.0.attn_qkv.bias" in names,
        output_bias="blk.0.attn_output.bias" in names,
        qk_norm=family.qk_norm,
        attention_scale=head_size**-0.5,
        rotary_size=rotary_size,
        tied="output.weight" not in names,
    )


def _layers(
    header: HeaderValues,
    architecture: str,
    family: _Family,
    shapes: LayerShapes,
    scaling: RopeScaling,
) -> tuple[LayerConfig, ...]:
    base = rope_base(header, f"{architecture}.rope.freq_base", 10_000.0)
    local_base = rope_base(
        header, f"{architecture}.rope.freq_base_swa", family.local_rope_base or base
    )
    local_scaling = scaling if family.local_rope_base is None else RopeScaling()
    everywhere = LayerConfig(rope_base=base, rope_scaling=scaling)
    return tuple(
        everywhere
        if window is None
        else LayerConfig(window, rope_base=local_base, rope_scaling=local_scaling)
        for window in _windows(header, architecture, family, shapes)
    )


def _windows(
    header: HeaderValues, architecture: str, family: _Family, shapes: LayerShapes
) -> tuple[int | None, ...]:
    """Phi-3 has a window in every layer; llama.cpp leaves it out, the model was trained with it."""
    given = header.integer(f"{architecture}.attention.sliding_window")
    if architecture == "phi3":
        return (given or None,) * shapes.layers
    window = given or family.default_window
    if family.default_window and given is None:
        return tuple(window if layer % 2 == 0 else None for layer in range(shapes.layers))
    return tuple(window if is_local else None for is_local in shapes.window_layers)


def _with_experts(config: ModelConfig, header: HeaderValues, architecture: str) -> ModelConfig:
    experts = header.integer(f"{architecture}.expert_count") or 0
    if not experts:
        if config.family == "qwen3_moe":
            raise header.damaged(f"{architecture}.expert_count is missing")
        if not config.feed_forward:
            raise header.damaged(f"{architecture}.feed_forward_length is missing")
        return config
    if config.family not in ("llama", "qwen3_moe"):
        raise _unknown(header, f"{architecture}.expert_count of {experts}")
    used = header.positive(f"{architecture}.expert_used_count")
    if used > experts:
        raise header.damaged(f"{architecture}.expert_used_count is above the {experts:,} experts")
    inner = header.integer(f"{architecture}.expert_feed_forward_length")
    return replace(
        config,
        family="mixtral" if config.family == "llama" else config.family,
        experts=experts,
        experts_used=used,
        expert_feed_forward=inner or header.positive(f"{architecture}.feed_forward_length"),
        layers=tuple(replace(layer, experts=experts) for layer in config.layers),
    )


def _gemma(
    config: ModelConfig, header: HeaderValues, architecture: str, family: _Family
) -> ModelConfig:
    per_head = config.head_size
    if len(config.layers) == family.wide_layers:
        per_head = config.hidden // config.heads
    scores, logits = family.caps or (None, None)
    activation: Literal["gelu_tanh"] = "gelu_tanh"
    return replace(
        config,
        activation=activation,
        post_norms=True,
        attention_scale=per_head**-0.5,
        attention_cap=_cap(header, f"{architecture}.attn_logit_softcapping", scores),
        logit_cap=_cap(header, f"{architecture}.final_logit_softcapping", logits),
        embedding_scale=math.sqrt(config.hidden),
    )


def _cap(header: HeaderValues, key: str, default: float | None) -> float | None:
    cap = header.number(key)
    if cap is None:
        return default
    if cap < 0:
        raise header.damaged(f"{key} is {cap:g}")
    return cap or None


def _check_keys(header: HeaderValues, architecture: str) -> None:
    for name, neutral in _NEUTRAL.items():
        value = header.value(f"{architecture}.{name}")
        if value is not None and value not in neutral:
            raise _unknown(header, f"The setting {architecture}.{name}")
    if architecture not in ("gemma2", "gemma3"):
        for name in ("attn_logit_softcapping", "final_logit_softcapping"):
            if header.value(f"{architecture}.{name}") not in (None, 0, 0.0):
                raise _unknown(header, f"The setting {architecture}.{name}")


def _head_size(header: HeaderValues, shapes: LayerShapes) -> int:
    if shapes.key_length != shapes.value_length:
        raise _unknown(header, f"A head of {shapes.key_length} and {shapes.value_length} values")
    return shapes.key_length


def _rotary_size(header: HeaderValues, architecture: str, head_size: int) -> int:
    key = f"{architecture}.rope.dimension_count"
    size = header.integer(key) or head_size
    if size > head_size or size % 2 or size < 0:
        raise header.damaged(f"{key} is {size:,}, with heads of {head_size:,}")
    if architecture == "llama" and size != head_size:
        raise _unknown(header, f"{key} of {size:,} with heads of {head_size:,}")
    return size


def _alike(header: HeaderValues, key: str, default: tuple[int, ...]) -> int:
    """The one value that all layers have."""
    values = set(header.integers(key) or default)
    if len(values) > 1:
        raise _unknown(header, f"{key} that differs from layer to layer")
    return values.pop()


def _norm_eps(header: HeaderValues, architecture: str) -> float:
    key = f"{architecture}.attention.layer_norm_rms_epsilon"
    eps = header.number(key)
    if eps is None or not 0 <= eps < 1:
        raise header.damaged(f"{key} is missing or absurd")
    return eps


def _unknown(header: HeaderValues, what: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"{show_name(header.file.path)} cannot run on this engine.",
        f"{what} is not known to it.",
        "Use another model, or run this one through llama.cpp.",
    )
