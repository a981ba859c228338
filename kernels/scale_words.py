"""The scales of a file's blocks as words of 32 bits, and back: `plane_format.Scales` says how.

Words here are bytes [R, words, 4], in the order of the columns.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kernels.block_fields import Fields, read_six_bits, write_six_bits
from kernels.plane_format import PlaneFormat

SIX_BITS_ZERO = 32


def scale_words(fields: Fields, format: PlaneFormat) -> Tensor:
    match format.scales:
        case "pair":
            return pair_words(fields["d"])
        case "pair_bf16":
            return pair_words(_exponent_bytes(fields["e"]))
        case "bytes_mins":
            parts = read_six_bits(fields["six"])
            pairs = [torch.unflatten(part, -1, (4, 2)) for part in parts]
            return torch.cat(pairs, -1).flatten(1, 2)
        case "super_bytes":
            supers = fields["d"].unsqueeze(2).expand(-1, -1, 4, -1)
            return torch.cat(
                (supers, torch.unflatten(_sub_scales(fields), -1, (4, 2))), -1
            ).flatten(1, 2)
        case _:
            sub = fields["sub"] if "sub" in fields else _sub_scales(fields)
            return torch.unflatten(sub, -1, (4, 4)).flatten(1, 2)


def fields_of_scales(words: Tensor, format: PlaneFormat) -> Fields:
    """Inverse of `scale_words`; with a block more where a pair was filled up."""
    match format.scales:
        case "pair":
            return {"d": block_pairs(words)}
        case "pair_bf16":
            return {"e": _exponents(block_pairs(words))}
        case "bytes_mins":
            parts = torch.unflatten(words, 1, (-1, 4))
            six = write_six_bits(parts[..., :2].flatten(-2), parts[..., 2:].flatten(-2))
            return {"six": six}
        case "super_bytes":
            parts = torch.unflatten(words, 1, (-1, 4))
            return {"d": parts[..., 0, :2], **_sub_fields(parts[..., 2:].flatten(-2))}
        case _:
            sub = torch.unflatten(words, 1, (-1, 4)).flatten(-2)
            whole = any(one.name == "sub" for one in format.fields)
            return {"sub": sub} if whole else _sub_fields(sub)


def pair_words(numbers: Tensor) -> Tensor:
    """Two bytes of each block [R, blocks, 2] -> words; the last may lack a partner."""
    return torch.unflatten(
        functional.pad(numbers, (0, 0, 0, numbers.shape[1] % 2)), 1, (-1, 2)
    ).flatten(2)


def block_pairs(words: Tensor) -> Tensor:
    return torch.unflatten(words, -1, (2, 2)).flatten(1, 2)


def super_words(fields: Fields) -> Tensor:
    """A word a block: d, and m or zero."""
    return torch.cat((fields["d"], fields.get("m", torch.zeros_like(fields["d"]))), -1)


def _sub_scales(fields: Fields) -> Tensor:
    """Six bits in two parts, less 32, as int8 in uint8."""
    return (fields["sub_low"] | (fields["sub_high"] << 4)) - SIX_BITS_ZERO


def _sub_fields(sub: Tensor) -> Fields:
    whole = sub + SIX_BITS_ZERO
    return {"sub_low": whole & 0x0F, "sub_high": whole >> 4}


def _exponent_bytes(exponents: Tensor) -> Tensor:
    """Half of 2 ** (e - 127) in bf16 [R, blocks, 2]; the two smallest are subnormal."""
    wide = exponents.short()
    return torch.where(wide < 2, 0x20 << wide, (wide - 1) << 7).to(torch.int16).view(torch.uint8)


def _exponents(numbers: Tensor) -> Tensor:
    bits = numbers.contiguous().view(torch.int16)
    return torch.where(bits < 0x80, bits >> 6, (bits >> 7) + 1).to(torch.uint8)
