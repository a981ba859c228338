"""Decoding of ggml's blocks whose codes choose a point of a grid: the IQ1, IQ2 and IQ3 types.

The grids are long lists of chosen points. They are read from the gguf package when they are needed;
without it these types cannot be decoded. Shapes as in `ggml_blocks.py`.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from kernels.block_bits import half, signs, unpack, words

IQ1_DELTA = 0.125


def iq2_xxs(blocks: Tensor) -> Tensor:
    scale, rest = blocks.split_with_sizes((2, 64), 1)
    pairs = torch.unflatten(rest, 1, (8, 2, 4))
    codes, tails = pairs[:, :, 0].flatten(1), words(pairs[:, :, 1].flatten(1), 4)
    factor = half(scale) * (0.5 + (tails >> 28).float()) * 0.25
    return _scaled(_points("IQ2_XXS", codes) * _parity_signs(_sevens(tails)), factor)


def iq2_xs(blocks: Tensor) -> Tensor:
    scale, rest, scales = blocks.split_with_sizes((2, 64, 8), 1)
    codes = words(rest, 2)
    factor = half(scale) * (0.5 + unpack(scales, 4, 1).float()) * 0.25
    return _scaled(_points("IQ2_XS", codes & 511) * _parity_signs(codes >> 9), factor)


def iq2_s(blocks: Tensor) -> Tensor:
    scale, low, negative, high, scales = blocks.split_with_sizes((2, 32, 32, 8, 8), 1)
    codes = low.int() | (unpack(high, 2, 1).int() << 8)
    factor = half(scale) * (0.5 + unpack(scales, 4, 1).float()) * 0.25
    return _scaled(_points("IQ2_S", codes) * signs(unpack(negative, 1, 1)), factor)


def iq3_xxs(blocks: Tensor) -> Tensor:
    scale, codes, rest = blocks.split_with_sizes((2, 64, 32), 1)
    tails = words(rest, 4)
    factor = half(scale) * (0.5 + (tails >> 28).float()) * 0.5
    return _scaled(_points("IQ3_XXS", codes) * _parity_signs(_sevens(tails)), factor)


def iq3_s(blocks: Tensor) -> Tensor:
    scale, low, high, negative, scales = blocks.split_with_sizes((2, 64, 8, 32, 4), 1)
    codes = low.int() | (unpack(high, 1, 1).int() << 8)
    factor = half(scale) * (1 + 2 * unpack(scales, 4, 1).float())
    return _scaled(_points("IQ3_S", codes) * signs(unpack(negative, 1, 1)), factor)


def iq1_s(blocks: Tensor) -> Tensor:
    scale, low, rest = blocks.split_with_sizes((2, 32, 16), 1)
    tails = words(rest, 2)
    codes = low.int() | (_fields(tails, 3).int() << 8)
    factor = half(scale) * (2 * ((tails >> 12) & 7).float() + 1)
    delta = IQ1_DELTA * signs(tails >> 15)
    return _scaled(_shifted(_points("IQ1_S", codes), delta), factor)


def iq1_m(blocks: Tensor) -> Tensor:
    low, high, rest = blocks.split_with_sizes((32, 16, 8), 1)
    tails, fields = words(rest, 2), unpack(high, 4, 1)
    # The fp16 scale is spread over the upper four bits of the four words.
    nibbles = tails >> 12
    bits = nibbles[:, :1] | nibbles[:, 1:2] << 4 | nibbles[:, 2:3] << 8 | nibbles[:, 3:] << 12
    scale = bits.to(torch.int16).view(torch.float16).float()
    codes = low.int() | ((fields & 7).int() << 8)
    factor = scale * (2 * _fields(tails, 3).float() + 1)
    delta = IQ1_DELTA * signs(fields >> 3)
    return _scaled(_shifted(_points("IQ1_M", codes), delta), factor)


def _points(type_name: str, codes: Tensor) -> Tensor:
    """The grid's point of each code, one behind the other: codes [N, M] -> [N, M * point size]."""
    return _grid(type_name).to(codes.device)[codes.int()].flatten(1)


@lru_cache
def _grid(type_name: str) -> Tensor:
    """float32 [points, point size], from the gguf package."""
    try:
        from gguf import GGMLQuantizationType, quants
    except ImportError as error:
        text = f"{type_name} can only be decoded where the Python package gguf is installed"
        raise ValueError(text) from error
    source = quants._type_traits[GGMLQuantizationType[type_name]]
    source.init_grid()
    return torch.from_numpy(source.grid.copy())[0, 0]


def _sevens(tails: Tensor) -> Tensor:
    """Four fields of 7 bits of each word."""
    shifts = torch.arange(0, 28, 7, device=tails.device)
    return ((tails.unsqueeze(2) >> shifts) & 0x7F).flatten(1)


def _fields(tails: Tensor, bits: int) -> Tensor:
    """Four fields of `bits` bits of each word, from the lowest."""
    shifts = torch.arange(4, device=tails.device) * bits
    return ((tails.unsqueeze(2) >> shifts) & ((1 << bits) - 1)).flatten(1)


def _parity_signs(fields: Tensor) -> Tensor:
    """Eight signs from 7 bits [N, M]: the number of negative ones is even. float32 [N, 8 M]."""
    bits = (fields.unsqueeze(2) >> torch.arange(7, device=fields.device)) & 1
    last = bits.sum(2, keepdim=True) & 1
    return signs(torch.cat((bits, last), 2)).flatten(1)


def _shifted(points: Tensor, delta: Tensor) -> Tensor:
    return (torch.unflatten(points, 1, (delta.shape[1], -1)) + delta.unsqueeze(2)).flatten(1)


def _scaled(points: Tensor, factor: Tensor) -> Tensor:
    return (torch.unflatten(points, 1, (factor.shape[1], -1)) * factor.unsqueeze(2)).flatten(1)
