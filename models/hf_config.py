"""`config.json` of a Hugging Face folder -> `ModelConfig`.

What is unknown is refused by name here, before any memory is taken; nothing is guessed. Needs no
tensor library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from models.config import LayerConfig, ModelConfig
from models.errors import UnsupportedModel
from models.hf_defaults import ACTIVATIONS, ARCHITECTURES, DEFAULTS
from models.hf_quantization import check_quantization
from models.hf_rope import HfRope, hf_rope
from models.hf_values import HfValues, refuse_value

FULL, SLIDING = "full_attention", "sliding_attention"
MOST_LAYERS = 4096
"""More are damage; the deepest models have some hundreds."""
LAYER_TYPES = (FULL, SLIDING)
GEMMAS = ("gemma2", "gemma3_text")
QWENS = ("qwen2", "qwen3", "qwen3_moe")


def config_from_hf(values: Mapping[str, Any]) -> ModelConfig:
    """The config of a folder whose `config.json` holds `values`.

    Raises UnsupportedModel for a model type, RoPE kind, activation, quantization or kind of
    attention that is unknown, and for values of a wrong kind.
    """
    model_type, values = _text_part(values)
    found = HfValues(values, DEFAULTS[model_type])
    _refuse_unknown(found, model_type)
    layer_types = _layer_types(found, model_type)
    ropes = {kind: hf_rope(found, model_type, kind) for kind in sorted(set(layer_types))}
    layers = tuple(
        _layer(found, model_type, index, kind, ropes[kind])
        for index, kind in enumerate(layer_types)
    )
    return _model(found, model_type, layers, next(iter(ropes.values())).rotary_share)


def _text_part(values: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The model type and the values of the part that reads and writes text."""
    model_type = values.get("model_type")
    _refuse_class(values)
    if model_type == "gemma3":
        text = values.get("text_config")
        if not isinstance(text, Mapping):
            refuse_value("text_config", text)
        shared = ("eos_token_id", "tie_word_embeddings", "quantization_config")
        # What a whole model states concerns its text part too.
        outer = {key: values[key] for key in shared if key in values}
        return "gemma3_text", {**text, **outer}
    if not isinstance(model_type, str) or model_type not in DEFAULTS:
        raise UnsupportedModel(
            f"Models of the type {model_type or 'unknown'} cannot run here.",
            f"Known types in config.json are: {', '.join(sorted(DEFAULTS))}, gemma3.",
            "Take another model, or the same one in GGUF.",
        )
    return model_type, values


def _refuse_class(values: Mapping[str, Any]) -> None:
    classes = values.get("architectures")
    if not classes:
        return
    if not isinstance(classes, list) or not all(isinstance(one, str) for one in classes):
        refuse_value("architectures", classes)
    if not ARCHITECTURES.intersection(classes):
        raise UnsupportedModel(
            f"The model is a {classes[0]}, which does not write text here.",
            f"Known classes are: {', '.join(sorted(ARCHITECTURES))}.",
            "Take a model made for chat or completion.",
        )


def _refuse_unknown(values: HfValues, model_type: str) -> None:
    """Settings that would change the result and are not done here."""
    for key in ("mlp_bias", "use_bidirectional_attention", "is_encoder_decoder"):
        if values.flag(key):
            refuse_value(key, True)
    if model_type not in ("llama", "qwen3", "qwen3_moe", *GEMMAS) and values.flag("attention_bias"):
        refuse_value("attention_bias", True)
    if model_type == "gemma3_text" and values.get("attn_logit_softcapping") is not None:
        refuse_value("attn_logit_softcapping", values.get("attn_logit_softcapping"))
    check_quantization(values.get("quantization_config"))


def _layer_types(values: HfValues, model_type: str) -> tuple[str, ...]:
    """`full_attention` or `sliding_attention` for each layer."""
    count = values.count("num_hidden_layers", most=MOST_LAYERS)
    given = values.get("layer_types")
    if given is not None:
        return _given_layer_types(given, count, model_type)
    if model_type == "gemma2":
        return tuple(SLIDING if (i + 1) % 2 else FULL for i in range(count))
    if model_type == "gemma3_text":
        period = values.count("sliding_window_pattern")
        return tuple(SLIDING if (i + 1) % period else FULL for i in range(count))
    if _window(values, model_type) is None:
        return (FULL,) * count
    # The first layers of Qwen see everything.
    first = values.count("max_window_layers", 0) if model_type in ("qwen2", "qwen3") else 0
    return tuple(SLIDING if i >= first else FULL for i in range(count))


def _window(values: HfValues, model_type: str) -> int | None:
    """Of the layers that have one; Qwen's files state a size even where it is not used."""
    if model_type in QWENS and not values.flag("use_sliding_window"):
        return None
    return values.optional_count("sliding_window")


def _given_layer_types(given: object, count: int, model_type: str) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) != count:
        refuse_value("layer_types", given)
    for kind in given:
        if kind not in LAYER_TYPES:
            refuse_value("layer_types", kind, LAYER_TYPES)
    if model_type not in ("qwen2", "qwen3", *GEMMAS) and len(set(given)) > 1:
        refuse_value("layer_types", given)
    return tuple(given)


def _layer(
    values: HfValues, model_type: str, index: int, layer_type: str, rope: HfRope
) -> LayerConfig:
    window = _window(values, model_type) if layer_type == SLIDING else None
    if layer_type == SLIDING and window is None:
        refuse_value("sliding_window", None)
    return LayerConfig(
        window=window,
        rope_base=rope.base,
        rope_scaling=rope.scaling,
        experts=_experts(values, model_type) if _has_experts(values, model_type, index) else 0,
    )


def _has_experts(values: HfValues, model_type: str, index: int) -> bool:
    if model_type != "qwen3_moe":
        return model_type == "mixtral"
    dense = values.ids("mlp_only_layers")
    return index not in dense and (index + 1) % values.count("decoder_sparse_step") == 0


def _experts(values: HfValues, model_type: str) -> int:
    if model_type not in ("mixtral", "qwen3_moe"):
        return 0
    # Both names are written, whichever the class calls it.
    return values.count(_first_known(values, "num_local_experts", "num_experts"))


def _first_known(values: HfValues, *keys: str) -> str:
    return next((key for key in keys if values.get(key) is not None), keys[-1])


def _model(
    values: HfValues, model_type: str, layers: tuple[LayerConfig, ...], rotary_share: float
) -> ModelConfig:
    heads, hidden = values.count("num_attention_heads"), values.count("hidden_size")
    head_size = values.optional_count("head_dim") or hidden // heads
    kv_heads = values.optional_count("num_key_value_heads") or heads
    if not head_size:
        refuse_value("num_attention_heads", heads)
    if heads % kv_heads:
        refuse_value("num_key_value_heads", kv_heads)
    gemma = model_type in GEMMAS
    experts = _experts(values, model_type)
    return ModelConfig(
        family=model_type.removesuffix("_text"),
        vocab_size=values.count("vocab_size"),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        feed_forward=values.count("intermediate_size"),
        layers=layers,
        context=values.count("max_position_embeddings"),
        norm_eps=values.number("rms_norm_eps"),
        norm_offset=1.0 if gemma else 0.0,
        activation=_activation(values, gemma),
        qkv_bias=model_type == "qwen2" or values.flag("attention_bias"),
        output_bias=values.flag("attention_bias"),
        qk_norm=model_type in ("qwen3", "qwen3_moe", "gemma3_text"),
        post_norms=gemma,
        attention_scale=(values.number("query_pre_attn_scalar") if gemma else head_size) ** -0.5,
        attention_cap=values.optional_number("attn_logit_softcapping") if gemma else None,
        logit_cap=values.optional_number("final_logit_softcapping") if gemma else None,
        embedding_scale=hidden**0.5 if gemma else 1.0,
        rotary_size=_rotary_size(layers, model_type, head_size, rotary_share),
        tied=values.flag("tie_word_embeddings"),
        experts=experts,
        experts_used=_experts_used(values, experts) if experts else 0,
        expert_feed_forward=_expert_feed_forward(values, model_type) if experts else 0,
        normalizes_experts=model_type != "qwen3_moe" or values.flag("norm_topk_prob"),
        end_ids=values.ids("eos_token_id"),
    )


def _experts_used(values: HfValues, experts: int) -> int:
    used = values.count("num_experts_per_tok")
    if used > experts:
        refuse_value("num_experts_per_tok", used)
    return used


def _activation(values: HfValues, gemma: bool) -> Literal["silu", "gelu_tanh"]:
    key = "hidden_activation" if gemma and values.get("hidden_activation") else "hidden_act"
    return cast(Literal["silu", "gelu_tanh"], values.choice(key, ACTIVATIONS))


def _expert_feed_forward(values: HfValues, model_type: str) -> int:
    key = "intermediate_size" if model_type == "mixtral" else "moe_intermediate_size"
    return values.count(key)


def _rotary_size(
    layers: tuple[LayerConfig, ...], model_type: str, head_size: int, share: float
) -> int:
    size = int(head_size * share)
    if (share != 1 and model_type != "phi3") or size % 2 or not 0 < size <= head_size:
        refuse_value("partial_rotary_factor", share)
    for scaling in (layer.rope_scaling for layer in layers):
        for factors in (scaling.short_factor, scaling.long_factor):
            if scaling.kind == "longrope" and len(factors) != size // 2:
                refuse_value("rope_scaling.long_factor", f"{len(factors)} values")
    return size
