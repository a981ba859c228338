"""RoPE of a `config.json`: today's `rope_parameters` and the older keys alike.

transformers 5 writes `rope_parameters`, for Gemma 3 one for each kind of layer; before, there were
`rope_theta`, `rope_scaling` and `rope_local_base_freq` side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.config import RopeScaling
from models.hf_values import HfValues, positive, refuse_value, whole

KINDS = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")


@dataclass(frozen=True, slots=True)
class HfRope:
    """Of one kind of layer."""

    base: float
    scaling: RopeScaling
    rotary_share: float
    """Part of a head's dims that is rotated."""


def hf_rope(values: HfValues, model_type: str, layer_type: str) -> HfRope:
    """Raises UnsupportedModel for a kind or a value that is unknown."""
    given = _parameters(values, model_type, layer_type)
    base = given.get("rope_theta", values.get(_base_key(model_type, layer_type)))
    share = given.get("partial_rotary_factor", values.get("partial_rotary_factor"))
    base = positive("rope_theta", base)
    if base <= 1:
        refuse_value("rope_theta", base)
    return HfRope(
        base=base,
        scaling=_scaling(given, values, model_type),
        rotary_share=1.0 if share is None else positive("partial_rotary_factor", share),
    )


def _base_key(model_type: str, layer_type: str) -> str:
    local = model_type == "gemma3_text" and layer_type == "sliding_attention"
    return "rope_local_base_freq" if local else "rope_theta"


def _parameters(values: HfValues, model_type: str, layer_type: str) -> Mapping[str, Any]:
    """The values for one kind of layer, the older key winning as in transformers."""
    new = _mapping("rope_parameters", values.get("rope_parameters"))
    old = _mapping("rope_scaling", values.get("rope_scaling"))
    if any(isinstance(one, Mapping) for one in new.values()):
        new = _mapping(f"rope_parameters.{layer_type}", new.get(layer_type))
    if model_type != "gemma3_text":
        return old or new
    # The scaling of Gemma 3 concerns the layers that see everything.
    return {**new, **old} if layer_type == "full_attention" else new


def _mapping(key: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        refuse_value(key, value)
    return value


def _scaling(given: Mapping[str, Any], values: HfValues, model_type: str) -> RopeScaling:
    kind = _kind(given, model_type)
    if kind == "default":
        return RopeScaling()
    original = _original_context(given, values, kind)
    if kind == "linear":
        return RopeScaling("linear", factor=_number(given, "factor"))
    if kind == "dynamic":
        return RopeScaling("dynamic", _number(given, "factor"), original_context=original)
    if kind == "llama3":
        return _llama3(given, original)
    # Both extensions state the ratio of the lengths, or leave it to be computed.
    factor = given.get("factor")
    ratio = values.count("max_position_embeddings") / original if factor is None else factor
    factor = positive("rope_scaling.factor", ratio)
    return _yarn(given, factor, original) if kind == "yarn" else _longrope(given, factor, original)


def _kind(given: Mapping[str, Any], model_type: str) -> str:
    kind = given.get("rope_type") or given.get("type") or "default"
    if model_type == "phi3" and kind in ("su", "yarn"):
        # Names that the first Phi-3 files had for it.
        kind = "longrope"
    if kind not in KINDS:
        refuse_value("rope_type", kind, KINDS)
    return str(kind)


def _original_context(given: Mapping[str, Any], values: HfValues, kind: str) -> int:
    """A key beside the scaling wins over the one inside, as in transformers."""
    trained = values.count("max_position_embeddings")
    if kind == "dynamic":
        return trained
    beside = values.optional_count("original_max_position_embeddings")
    inside = given.get("original_max_position_embeddings")
    # A length of 1 has no logarithm to divide by.
    return whole("original_max_position_embeddings", beside or inside or trained, least=2)


def _llama3(given: Mapping[str, Any], original: int) -> RopeScaling:
    low, high = _number(given, "low_freq_factor"), _number(given, "high_freq_factor")
    if high <= low:
        refuse_value("rope_scaling.high_freq_factor", high)
    return RopeScaling(
        "llama3",
        factor=_number(given, "factor"),
        original_context=original,
        low_freq_factor=low,
        high_freq_factor=high,
    )


def _yarn(given: Mapping[str, Any], factor: float, original: int) -> RopeScaling:
    return RopeScaling(
        "yarn",
        factor=factor,
        original_context=original,
        beta_fast=_number_or(given, "beta_fast", 32.0),
        beta_slow=_number_or(given, "beta_slow", 1.0),
        attention_factor=_attention_factor(given),
        mscale=_number_or(given, "mscale", 0.0),
        mscale_all_dim=_number_or(given, "mscale_all_dim", 0.0),
        truncate=given.get("truncate", True) is not False,
    )


def _longrope(given: Mapping[str, Any], factor: float, original: int) -> RopeScaling:
    return RopeScaling(
        "longrope",
        factor=factor,
        original_context=original,
        attention_factor=_attention_factor(given),
        short_factor=_factors(given, "short_factor"),
        long_factor=_factors(given, "long_factor"),
    )


def _number(given: Mapping[str, Any], key: str) -> float:
    return positive(f"rope_scaling.{key}", given.get(key))


def _number_or(given: Mapping[str, Any], key: str, otherwise: float) -> float:
    """`otherwise` where it is missing, null or 0, as in transformers."""
    return _number(given, key) if given.get(key) else otherwise


def _attention_factor(given: Mapping[str, Any]) -> float | None:
    found = given.get("attention_factor")
    return None if found is None else _number(given, "attention_factor")


def _factors(given: Mapping[str, Any], key: str) -> tuple[float, ...]:
    value = given.get(key)
    if not isinstance(value, list):
        refuse_value(f"rope_scaling.{key}", value)
    return tuple(positive(f"rope_scaling.{key}", one) for one in value)
