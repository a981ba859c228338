"""Decoding of ggml's blocks that need no table from elsewhere.

Each function takes blocks as bytes [N, bytes of a block] and returns float32 [N, values of a
block]. Layouts and the order of the float operations are those of ggml (ggml-quants.c), so that the
results are equal bit for bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.block_bits import half, reinterpret, unpack

NL_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
E2M1_DOUBLED = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def f32(blocks: Tensor) -> Tensor:
    return reinterpret(blocks, torch.float32)


def f16(blocks: Tensor) -> Tensor:
    return half(blocks)


def bf16(blocks: Tensor) -> Tensor:
    return reinterpret(blocks, torch.bfloat16).float()


def q4_0(blocks: Tensor) -> Tensor:
    scale, codes = blocks.split_with_sizes((2, 16), 1)
    return half(scale) * (unpack(codes, 4, 16).float() - 8)


def q4_1(blocks: Tensor) -> Tensor:
    scale, least, codes = blocks.split_with_sizes((2, 2, 16), 1)
    return half(scale) * unpack(codes, 4, 16).float() + half(least)


def q5_0(blocks: Tensor) -> Tensor:
    scale, high, low = blocks.split_with_sizes((2, 4, 16), 1)
    codes = unpack(low, 4, 16) | (unpack(high, 1, 1) << 4)
    return half(scale) * (codes.float() - 16)


def q5_1(blocks: Tensor) -> Tensor:
    scale, least, high, low = blocks.split_with_sizes((2, 2, 4, 16), 1)
    codes = unpack(low, 4, 16) | (unpack(high, 1, 1) << 4)
    return half(scale) * codes.float() + half(least)


def q8_0(blocks: Tensor) -> Tensor:
    scale, codes = blocks.split_with_sizes((2, 32), 1)
    return codes.view(torch.int8).float() * half(scale)


def q2_k(blocks: Tensor) -> Tensor:
    scales, codes, scale, least = blocks.split_with_sizes((16, 64, 2, 2), 1)
    factor = half(scale) * (scales & 0xF).float()
    shift = half(least) * (scales >> 4).float()
    return _scaled(unpack(codes, 2, 32).float(), factor, shift)


def q3_k(blocks: Tensor) -> Tensor:
    high, low, scales, scale = blocks.split_with_sizes((32, 64, 12, 2), 1)
    packed = unpack(scales[:, :8], 4, 8) | (unpack(scales[:, 8:], 2, 4) << 4)
    # A set bit means that nothing is taken away.
    codes = unpack(low, 2, 32).float() - 4 * (1 - unpack(high, 1, 32).float())
    return _scaled(codes, half(scale) * (packed.float() - 32))


def q4_k(blocks: Tensor) -> Tensor:
    scale, least, scales, codes = blocks.split_with_sizes((2, 2, 12, 128), 1)
    factors, shifts = _six_bit_scales(scales)
    return _scaled(unpack(codes, 4, 32).float(), half(scale) * factors, half(least) * shifts)


def q5_k(blocks: Tensor) -> Tensor:
    scale, least, scales, high, low = blocks.split_with_sizes((2, 2, 12, 32, 128), 1)
    factors, shifts = _six_bit_scales(scales)
    codes = unpack(low, 4, 32) | (unpack(high, 1, 32) << 4)
    return _scaled(codes.float(), half(scale) * factors, half(least) * shifts)


def q6_k(blocks: Tensor) -> Tensor:
    low, high, scales, scale = blocks.split_with_sizes((128, 64, 16, 2), 1)
    codes = unpack(low, 4, 64) | (unpack(high, 2, 32) << 4)
    return _scaled(codes.float() - 32, half(scale) * scales.view(torch.int8).float())


def tq1_0(blocks: Tensor) -> Tensor:
    """Three states a digit: a byte holds five digits, or four at the end, as a fraction of 256."""
    first, second, last, scale = blocks.split_with_sizes((32, 16, 4, 2), 1)
    powers = torch.tensor((1, 3, 9, 27, 81), dtype=torch.uint8, device=blocks.device).unsqueeze(1)
    # uint8 products wrap: this drops the digits that stand in front.
    fractions = torch.cat(
        (
            (first.unsqueeze(1) * powers).flatten(1),
            (second.unsqueeze(1) * powers).flatten(1),
            (last.unsqueeze(1) * powers[:4]).flatten(1),
        ),
        1,
    )
    return half(scale) * (((fractions.int() * 3) >> 8).float() - 1)


def tq2_0(blocks: Tensor) -> Tensor:
    codes, scale = blocks.split_with_sizes((64, 2), 1)
    return half(scale) * (unpack(codes, 2, 32).float() - 1)


def iq4_nl(blocks: Tensor) -> Tensor:
    scale, codes = blocks.split_with_sizes((2, 16), 1)
    return half(scale) * _looked_up(unpack(codes, 4, 16), NL_VALUES)


def iq4_xs(blocks: Tensor) -> Tensor:
    scale, high, low, codes = blocks.split_with_sizes((2, 2, 4, 128), 1)
    scales = (unpack(low, 4, 1) | (unpack(high, 2, 1) << 4)).float() - 32
    return _scaled(_looked_up(unpack(codes, 4, 16), NL_VALUES), half(scale) * scales)


def mxfp4(blocks: Tensor) -> Tensor:
    exponent, codes = blocks.split_with_sizes((1, 16), 1)
    # Half of 2 ** (exponent - 127), made from its bits; the two smallest are subnormal.
    wide = exponent.int()
    bits = torch.where(wide < 2, 0x00200000 << wide, (wide - 1) << 23)
    return bits.view(torch.float32) * _looked_up(unpack(codes, 4, 16), E2M1_DOUBLED)


def nvfp4(blocks: Tensor) -> Tensor:
    scales, codes = blocks.split_with_sizes((4, 32), 1)
    exponent, mantissa = ((scales >> 3) & 0xF).float(), (scales & 7).float()
    normal = (1 + mantissa / 8) * torch.exp2(exponent - 7)
    factor = torch.where(exponent == 0, mantissa * 2**-9, normal) * 0.5
    factor = factor.masked_fill(scales == 0x7F, 0)
    return _scaled(_looked_up(unpack(codes, 4, 8), E2M1_DOUBLED), factor)


def _scaled(codes: Tensor, factor: Tensor, shift: Tensor | None = None) -> Tensor:
    """Groups of neighbours, codes [N, values], factor and shift [N, groups]."""
    groups = torch.unflatten(codes, 1, (factor.shape[1], -1)) * factor.unsqueeze(2)
    return (groups if shift is None else groups - shift.unsqueeze(2)).flatten(1)


def _six_bit_scales(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes [N, 12] as 8 scales and 8 mins: the first four whole, of the others low and high bits.

    0..3: EEAAAAAA, 4..7: eeaaaaaa, 8..11: eeeeEEEE (capitals: scales).
    """
    scales, mins, low = packed.split_with_sizes((4, 4, 4), 1)
    factors = torch.cat((scales & 0x3F, (low & 0x0F) | ((scales >> 2) & 0x30)), 1)
    shifts = torch.cat((mins & 0x3F, (low >> 4) | ((mins >> 2) & 0x30)), 1)
    return factors.float(), shifts.float()


def _looked_up(codes: Tensor, values: tuple[int, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=codes.device)[codes.int()]
