"""Numbers of a head to codes and back: the arithmetic of the quantized KV formats.

Every scale is rounded to fp16, as it is stored, before anything is divided by it; a row of zeros
has scale 0 and codes 0. A wide head is P parts with scales of their own
(`kv_layout.scale_parts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.kv_layout import K_GROUP, scale_parts

INT8_MAX = 127
FP8_MAX = 448.0
FP8_SHARES = tuple(2 ** (step / 8) for step in range(8))
"""Multiples of the scale that is just large enough. fp8's steps repeat with every octave, and the
best of eight places in one lessens the squared error of Gaussian rows by 23 and 18 % at 64 and 128
dims; the best of four by 16 and 13 %.
"""
INT4_BIAS = 8
"""Added to a signed 4-bit code before it is packed."""
UINT4_MAX = 15
RANGE_SHARES = (1.0, 0.95, 0.9, 0.85)
"""Of Gaussian rows they lessen the squared error by 7, 10 and 15 % at D = 64, 128 and 256; twice
as many save 1 % more.
"""


@dataclass(frozen=True, slots=True)
class Codes:
    """`values` [..., D]: of the stored dtype, or one 4-bit code a byte; the rest fp16."""

    values: Tensor
    scale: Tensor | None = None
    zero: Tensor | None = None


def quantize(x: Tensor, kind: str) -> Codes:
    """x float32 [..., D] as int8 or fp8: scale [..., P].

    int8 codes lie in -127..127 and fp8 is never NaN: the codes that are left mean nothing.
    """
    parts = _parts(x)
    if kind == "fp8":
        found = _best_fp8_codes(parts)
    else:
        scale = _half(parts.abs().amax(-1, keepdim=True) / INT8_MAX)
        scaled = _divide(parts, scale).clamp(-INT8_MAX, INT8_MAX)
        found = Codes(scaled.round().to(torch.int8), scale)
    return _joined(found)


def dequantize(values: Tensor, scale: Tensor) -> Tensor:
    """Inverse of `quantize`, float32."""
    return (_parts(values).float() * scale.float().unsqueeze(-1)).flatten(-2)


def quantize_groups(x: Tensor) -> Codes:
    """x float32 [..., D] as codes 0..15, 8 meaning 0; one scale per 32 dims: [..., ceil(D / 32)].

    As ggml's Q4_0: the number farthest from zero becomes code 0 exactly, and so the scale has the
    other sign; of two that are equally far it is the positive one. The last group is shorter where
    32 does not divide D.
    """
    size = x.shape[-1]
    grouped = torch.unflatten(torch.nn.functional.pad(x, (0, -size % K_GROUP)), -1, (-1, K_GROUP))
    least, largest = grouped.amin(-1, keepdim=True), grouped.amax(-1, keepdim=True)
    farthest = torch.where(largest >= -least, largest, least)
    scale = _half(farthest / -INT4_BIAS)
    codes = (_divide(grouped, scale).round() + INT4_BIAS).clamp(0, UINT4_MAX)
    return Codes(codes.to(torch.uint8).flatten(-2)[..., :size], scale.squeeze(-1))


def dequantize_groups(values: Tensor, scale: Tensor) -> Tensor:
    """Inverse of `quantize_groups`, float32."""
    wide = scale.float().repeat_interleave(K_GROUP, -1)[..., : values.shape[-1]]
    return (values.float() - INT4_BIAS) * wide


def quantize_range(x: Tensor) -> Codes:
    """x float32 [..., D] as codes 0..15 of a range: x = code * scale + zero; both [..., P].

    The range reaches from the part's least number to its largest, or is somewhat narrower around
    the same middle where that lessens the sum of squared errors.
    """
    parts = _parts(x)
    shares = _along_front(RANGE_SHARES, parts)
    best = _least_error(_range_codes(parts, shares), parts)
    return _joined(_range_codes(parts, shares.flatten()[best]))


def dequantize_range(values: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Inverse of `quantize_range`, float32."""
    # Nothing is named that isn't needed any more: it would take memory.
    scaled = _parts(values).float() * scale.float().unsqueeze(-1)
    return scaled.add_(zero.float().unsqueeze(-1)).flatten(-2)


def pack_halves(values: Tensor, span: int) -> Tensor:
    """4-bit codes [..., N] as bytes [..., N / 2]: of each span of S, code n low, n + S / 2 high."""
    low, high = torch.unflatten(values, -1, (-1, 2, span // 2)).unbind(-2)
    return (low | (high << 4)).flatten(-2)


def unpack_halves(packed: Tensor, span: int) -> Tensor:
    """Inverse of `pack_halves`."""
    halves = torch.unflatten(packed, -1, (-1, 1, span // 2))
    return torch.cat((halves & 0xF, halves >> 4), -2).flatten(-3)


def _parts(x: Tensor) -> Tensor:
    """x [..., D] as [..., P, D / P]."""
    return torch.unflatten(x, -1, (scale_parts(x.shape[-1]), -1))


def _joined(codes: Codes) -> Codes:
    """Codes of parts, their scales [..., P, 1], as those of a head."""
    zero = None if codes.zero is None else codes.zero.squeeze(-1)
    assert codes.scale is not None
    return Codes(codes.values.flatten(-2), codes.scale.squeeze(-1), zero)


def _along_front(shares: tuple[float, ...], x: Tensor) -> Tensor:
    """What is tried, as a new first dim."""
    return torch.tensor(shares, device=x.device).view(-1, *[1] * x.dim())


def _least_error(tried: Codes, x: Tensor) -> Tensor:
    """Which codes of the first dim come closest to x: [..., P, 1]."""
    assert tried.scale is not None
    found = tried.values.float() * tried.scale.float()
    if tried.zero is not None:
        found = found + tried.zero.float()
    return (found - x).square().sum(-1, keepdim=True).argmin(0)


def _best_fp8_codes(x: Tensor) -> Codes:
    shares = _along_front(FP8_SHARES, x)
    best = _least_error(_fp8_codes(x, shares), x)
    return _fp8_codes(x, shares.flatten()[best])


def _fp8_codes(x: Tensor, share: Tensor) -> Codes:
    scale = _half(x.abs().amax(-1, keepdim=True) * share / FP8_MAX)
    scaled = _divide(x, scale).clamp(-FP8_MAX, FP8_MAX)
    return Codes(scaled.to(torch.float8_e4m3fn), scale)


def _range_codes(x: Tensor, share: Tensor) -> Codes:
    least, largest = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    cut = (largest - least) * (1 - share) / 2
    zero = _half(least + cut)
    scale = _half((largest - cut - zero.float()).clamp_min(0) / UINT4_MAX)
    codes = _divide(x - zero.float(), scale).round().clamp(0, UINT4_MAX)
    return Codes(codes.to(torch.uint8), scale, zero)


def _half(x: Tensor) -> Tensor:
    top = torch.finfo(torch.float16).max
    return x.clamp(-top, top).half()


def _divide(x: Tensor, scale: Tensor) -> Tensor:
    wide = scale.float()
    return torch.where(wide == 0, 0.0, x / wide)
