"""Numbers of a head to codes and back: the arithmetic of the quantized KV formats.

Every scale is rounded to fp16, as it is stored, before anything is divided by it; a row of zeros
has scale 0 and codes 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.kv_layout import K_GROUP

INT8_MAX = 127
FP8_MAX = 448.0
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
    """x float32 [..., D] as int8 or fp8 with one scale per row: scale [...].

    int8 codes lie in -127..127 and fp8 is never NaN: the codes that are left mean nothing.
    """
    top = INT8_MAX if kind == "int8" else FP8_MAX
    scale = _half(x.abs().amax(-1) / top)
    scaled = _divide(x, scale.unsqueeze(-1)).clamp(-top, top)
    if kind == "int8":
        return Codes(scaled.round().to(torch.int8), scale)
    return Codes(scaled.to(torch.float8_e4m3fn), scale)


def dequantize(values: Tensor, scale: Tensor) -> Tensor:
    """Inverse of `quantize`, float32."""
    return values.float() * scale.float().unsqueeze(-1)


def quantize_groups(x: Tensor) -> Codes:
    """x float32 [..., D] as codes 0..15, 8 meaning 0; one scale per 32 dims: [..., ceil(D / 32)].

    As ggml's Q4_0: the number farthest from zero becomes code 0 exactly, and so the scale has the
    other sign. The last group is shorter where 32 does not divide D.
    """
    size = x.shape[-1]
    grouped = torch.unflatten(torch.nn.functional.pad(x, (0, -size % K_GROUP)), -1, (-1, K_GROUP))
    farthest = grouped.gather(-1, grouped.abs().argmax(-1, keepdim=True))
    scale = _half(farthest / -INT4_BIAS)
    codes = (_divide(grouped, scale).round() + INT4_BIAS).clamp(0, UINT4_MAX)
    return Codes(codes.to(torch.uint8).flatten(-2)[..., :size], scale.squeeze(-1))


def dequantize_groups(values: Tensor, scale: Tensor) -> Tensor:
    """Inverse of `quantize_groups`, float32."""
    wide = scale.float().repeat_interleave(K_GROUP, -1)[..., : values.shape[-1]]
    return (values.float() - INT4_BIAS) * wide


def quantize_range(x: Tensor) -> Codes:
    """x float32 [..., D] as codes 0..15 of a range: x = code * scale + zero; scale and zero [...].

    The range reaches from the row's least number to its largest, or is somewhat narrower around the
    same middle where that lessens the sum of squared errors.
    """
    shares = torch.tensor(RANGE_SHARES, device=x.device)
    tried = _range_codes(x, shares.view(-1, *[1] * x.dim()))
    assert tried.scale is not None
    assert tried.zero is not None
    found = dequantize_range(tried.values, tried.scale, tried.zero)
    best = (found - x).square().sum(-1).argmin(0)
    return _range_codes(x, shares[best].unsqueeze(-1))


def dequantize_range(values: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Inverse of `quantize_range`, float32."""
    return values.float() * scale.float().unsqueeze(-1) + zero.float().unsqueeze(-1)


def pack_halves(values: Tensor) -> Tensor:
    """4-bit codes [..., N] as bytes [..., N / 2]: code n low, code n + N / 2 high."""
    low, high = values.chunk(2, -1)
    return low | (high << 4)


def unpack_halves(packed: Tensor) -> Tensor:
    """Inverse of `pack_halves`."""
    return torch.cat((packed & 0xF, packed >> 4), -1)


def _range_codes(x: Tensor, share: Tensor) -> Codes:
    least, largest = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    cut = (largest - least) * (1 - share) / 2
    zero = _half(least + cut)
    scale = _half((largest - cut - zero.float()).clamp_min(0) / UINT4_MAX)
    codes = _divide(x - zero.float(), scale).round().clamp(0, UINT4_MAX)
    return Codes(codes.to(torch.uint8), scale.squeeze(-1), zero.squeeze(-1))


def _half(x: Tensor) -> Tensor:
    top = torch.finfo(torch.float16).max
    return x.clamp(-top, top).half()


def _divide(x: Tensor, scale: Tensor) -> Tensor:
    wide = scale.float()
    return torch.where(wide == 0, 0.0, x / wide)
