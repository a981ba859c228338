"""Rotary position embedding: which angle each position turns a pair of dims by.

The inverse frequency of pair i is base^(-2i / R), R dims being rotated (Su et al., "RoFormer",
arXiv 2104.09864). Scalings change these frequencies so that positions beyond the trained length
stay in the range that training saw; all is float32, in the order of operations of transformers'
`modeling_rope_utils.py`.

Two scalings depend on how long a sequence is: dynamic NTK and longrope. A pool keeps keys that are
already rotated, so frequencies that changed while a sequence grows would leave its old keys behind,
and what is found in the cache would differ from what is computed anew. Here they are chosen once,
by the context limit that the decoder is opened with: longrope takes its long factors when the limit
is beyond the original length, its short ones otherwise; dynamic NTK takes the base for the limit.
Thus warm equals cold in one engine, and both equal a cold run of transformers at that length. A
shorter sequence under a limit beyond the original length gets the long frequencies too, which
transformers would not give it (llama.cpp and vLLM do the same as we do).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from models.config import LayerConfig, RopeScaling


@dataclass(frozen=True, eq=False)
class Rope:
    """`inverse_frequencies`: float32 [R / 2], radians for each position."""

    inverse_frequencies: Tensor
    factor: float = 1.0
    """Cosines and sines are multiplied by it."""

    def at(self, positions: Tensor, room: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Cosines and sines of int64 [T], float32 [T, R / 2] each.

        `room`: float32 [3, T, R / 2], which they are then computed in.
        """
        angles, cos, sin = (None, None, None) if room is None else room
        angles = torch.mul(positions.unsqueeze(1), self.inverse_frequencies, out=angles)
        cos, sin = torch.cos(angles, out=cos), torch.sin(angles, out=sin)
        return (cos, sin) if self.factor == 1.0 else (cos.mul_(self.factor), sin.mul_(self.factor))


def rope(layer: LayerConfig, rotary_size: int, context: int, device: torch.device) -> Rope:
    """The layer's angles in an engine whose sequences are kept to `context` tokens."""
    scaling, base = layer.rope_scaling, layer.rope_base
    makers = {
        "none": _plain,
        "linear": _linear,
        "dynamic": _dynamic,
        "llama3": _llama3,
        "yarn": _yarn,
        "longrope": _longrope,
    }
    frequencies = makers[scaling.kind](base, rotary_size, scaling, context)
    return Rope(frequencies.to(device), _factor(scaling))


def _powers(base: float, size: int) -> Tensor:
    """base^(2i / R)."""
    return torch.as_tensor(base ** (torch.arange(0, size, 2, dtype=torch.float32) / size))


def _plain(base: float, size: int, scaling: RopeScaling, context: int) -> Tensor:
    return 1.0 / _powers(base, size)


def _linear(base: float, size: int, scaling: RopeScaling, context: int) -> Tensor:
    """Position interpolation (Chen et al., arXiv 2306.15595): all frequencies divided."""
    return 1.0 / _powers(base, size) / scaling.factor


def _dynamic(base: float, size: int, scaling: RopeScaling, context: int) -> Tensor:
    """Dynamic NTK: the base grows by (s L / L0 - (s - 1))^(R / (R - 2)), L0 <= L the length."""
    ratio = max(context, scaling.original_context) / scaling.original_context
    growth = scaling.factor * ratio - (scaling.factor - 1)
    return 1.0 / _powers(base * growth ** (size / (size - 2)), size)


def _llama3(base: float, size: int, scaling: RopeScaling, context: int) -> Tensor:
    """Llama 3.1: wavelengths beyond L0 / low are divided, below L0 / high kept, between blended."""
    plain = 1.0 / _powers(base, size)
    original, low, high = (
        scaling.original_context,
        scaling.low_freq_factor,
        scaling.high_freq_factor,
    )
    waves = 2 * math.pi / plain
    blend = (original / waves - low) / (high - low)
    blended = (1 - blend) * plain / scaling.factor + blend * plain
    long, short = waves > original / low, waves < original / high
    return torch.where(long, plain / scaling.factor, torch.where(short, plain, blended))


def _yarn(base: float, size: int, scaling: RopeScaling, context: int) -> Tensor:
    """YaRN (Peng et al., arXiv 2309.00071): a ramp over the dims from kept to divided ones."""

    def dim_of(rotations: float) -> float:
        turns = scaling.original_context / (rotations * 2 * math.pi)
        return size * math.log(turns) / (2 * math.log(base))

    low, high = dim_of(scaling.beta_fast), dim_of(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    # Equal ends would divide by zero.
    width = (high - low) or 0.001
    ramp = ((torch.arange(size // 2, dtype=torch.float32) - low) / width).clamp(0, 1)
    powers, kept = _powers(base, size), 1 - ramp
    return 1.0 / (scaling.factor * powers) * (1 - kept) + 1.0 / powers * kept


def _longrope(base: float, size: int, scaling: RopeScaling, context: int) -> Tensor:
    """LongRoPE (Ding et al., arXiv 2402.13753): a divisor for each dim, one set for each length."""
    is_long = context > scaling.original_context
    divisors = torch.tensor(scaling.long_factor if is_long else scaling.short_factor)
    return 1.0 / (divisors * _powers(base, size))


def _factor(scaling: RopeScaling) -> float:
    """YaRN: 0.1 m ln s + 1; longrope: sqrt(1 + ln s / ln L0); 1 for all others."""
    if scaling.kind not in ("yarn", "longrope"):
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.kind == "longrope":
        return _longrope_factor(scaling)
    if scaling.mscale and scaling.mscale_all_dim:
        whole = _yarn_factor(scaling.factor, scaling.mscale_all_dim)
        return _yarn_factor(scaling.factor, scaling.mscale) / whole
    return _yarn_factor(scaling.factor, 1.0)


def _yarn_factor(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _longrope_factor(scaling: RopeScaling) -> float:
    if scaling.factor <= 1:
        return 1.0
    return math.sqrt(1 + math.log(scaling.factor) / math.log(scaling.original_context))
