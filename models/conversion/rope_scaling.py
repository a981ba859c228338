"""Rotary positions in the keys and tensors of a GGUF file, as llama.cpp reads them.

Llama 3's scaling is stored as its result, one divisor for each pair of dims; longrope as two lists
of divisors, of which llama.cpp takes the long ones as soon as its context is longer than what the
model was first trained on. NTK scaling ("dynamic") has no counterpart.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from models.config import ModelConfig, RopeScaling
from models.errors import UnsupportedModel

Divisors = npt.NDArray[np.float32]


def add_rope(writer: Any, config: ModelConfig, interleaved: bool) -> None:
    """Keys of the layers that see everything, and the base of those that have a window.

    Raises UnsupportedModel for a scaling that llama.cpp cannot do.
    """
    everywhere, local = _kinds(config)
    base, scaling = everywhere
    writer.add_rope_dimension_count(config.rotary_size)
    writer.add_rope_freq_base(base)
    if local is not None:
        _check_local(config, everywhere, local)
        writer.add_rope_freq_base_swa(local[0])
    if scaling.kind == "linear":
        writer.add_rope_scaling_type(_type("LINEAR"))
        writer.add_rope_scaling_factor(scaling.factor)
    elif scaling.kind == "yarn":
        _add_yarn(writer, scaling)
    elif scaling.kind == "longrope":
        _add_longrope(writer, config, scaling)
    elif scaling.kind == "dynamic" or (scaling.kind == "llama3" and not interleaved):
        raise _refuse(scaling.kind, f"llama.cpp has no counterpart for {config.family} models.")


def rope_tensors(config: ModelConfig) -> dict[str, Divisors]:
    """GGUF name -> divisors of the rotated pairs, [rotary size / 2]."""
    scaling = _kinds(config)[0][1]
    if scaling.kind == "llama3":
        return {"rope_freqs.weight": _llama3(scaling, _kinds(config)[0][0], config.rotary_size)}
    if scaling.kind == "longrope":
        return {
            "rope_factors_long.weight": np.asarray(scaling.long_factor, np.float32),
            "rope_factors_short.weight": np.asarray(scaling.short_factor, np.float32),
        }
    return {}


_Rope = tuple[float, RopeScaling]


def _kinds(config: ModelConfig) -> tuple[_Rope, _Rope | None]:
    """Base and scaling of the layers that see everything (or of all), and of window layers."""
    kinds = {True: set[_Rope](), False: set[_Rope]()}
    for layer in config.layers:
        kinds[layer.window is not None].add((layer.rope_base, layer.rope_scaling))
    if any(len(found) > 1 for found in kinds.values()):
        raise _refuse("of several kinds", "It differs between layers that see the same.")
    local = next(iter(kinds[True]), None)
    everywhere = next(iter(kinds[False]), local)
    assert everywhere is not None  # a model has layers
    return everywhere, local


def _check_local(config: ModelConfig, everywhere: _Rope, local: _Rope) -> None:
    """llama.cpp never scales Gemma 3's window layers, and those of other families as the rest."""
    expected = RopeScaling() if config.family == "gemma3" else everywhere[1]
    bases = config.family in ("gemma2", "gemma3") or local[0] == everywhere[0]
    if local[1] != expected or not bases:
        raise _refuse(local[1].kind, "llama.cpp does not treat layers with a window that way.")


def _add_yarn(writer: Any, scaling: RopeScaling) -> None:
    """Of the formula's parts, llama.cpp reads a file's factor and length only."""
    if (scaling.beta_fast, scaling.beta_slow, scaling.truncate) != (32.0, 1.0, True):
        raise _refuse("yarn", "llama.cpp takes beta_fast 32, beta_slow 1 and truncation only.")
    writer.add_rope_scaling_type(_type("YARN"))
    writer.add_rope_scaling_factor(scaling.factor)
    writer.add_rope_scaling_orig_ctx_len(scaling.original_context)
    # llama.cpp multiplies what the file says by the formula's own value.
    ratio = _yarn_attention(scaling) / _mscale(scaling.factor, 1.0)
    if not math.isclose(ratio, 1.0):
        writer.add_rope_scaling_attn_factors(ratio)


def _yarn_attention(scaling: RopeScaling) -> float:
    """As transformers computes it."""
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.mscale and scaling.mscale_all_dim:
        return _mscale(scaling.factor, scaling.mscale) / _mscale(
            scaling.factor, scaling.mscale_all_dim
        )
    return _mscale(scaling.factor, 1.0)


def _mscale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _add_longrope(writer: Any, config: ModelConfig, scaling: RopeScaling) -> None:
    if config.family not in ("phi3", "llama", "mistral", "mixtral"):
        raise _refuse("longrope", f"llama.cpp has no counterpart for {config.family} models.")
    writer.add_rope_scaling_type(_type("LONGROPE"))
    writer.add_rope_scaling_orig_ctx_len(scaling.original_context)
    factor = scaling.attention_factor
    if factor is None:
        ratio = math.log(scaling.factor) / math.log(scaling.original_context)
        factor = math.sqrt(1 + ratio) if scaling.factor > 1 else 1.0
    writer.add_rope_scaling_attn_factors(factor)


def _llama3(scaling: RopeScaling, base: float, rotary_size: int) -> Divisors:
    """Long waves are stretched by the factor, short ones kept, those between blended."""
    low = scaling.original_context / scaling.low_freq_factor
    high = scaling.original_context / scaling.high_freq_factor
    exponents = np.arange(0, rotary_size, 2, dtype=np.float64) / rotary_size
    waves = 2 * math.pi * base**exponents
    span = scaling.high_freq_factor - scaling.low_freq_factor
    smooth = (scaling.original_context / waves - scaling.low_freq_factor) / span
    blended = 1 / ((1 - smooth) / scaling.factor + smooth)
    divisors = np.where(waves > low, scaling.factor, np.where(waves < high, 1.0, blended))
    return divisors.astype(np.float32)


def _type(name: str) -> Any:
    from gguf import RopeScalingType

    return RopeScalingType[name]


def _refuse(kind: str, text: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"The model cannot be converted: its position scaling {kind} cannot be said in a GGUF "
        "file.",
        text,
        "Run it on a machine with CUDA, or take another model.",
    )
