"""The bit fields of a file's blocks, read and written back.

Fields are uint8 [R, blocks, values of the field], by the names that `plane_format.py` gives them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.block_bits import unpack
from kernels.plane_format import PlaneFormat

Fields = dict[str, Tensor]


def read_fields(blocks: Tensor, format: PlaneFormat) -> Fields:
    """blocks uint8 [R, blocks, bytes of a block]."""
    flat = blocks.flatten(0, 1)
    parts = flat.split_with_sizes([one.size for one in format.fields], 1)
    return {
        one.name: torch.unflatten(unpack(part, one.bits, one.chunk), 0, blocks.shape[:2])
        for one, part in zip(format.fields, parts, strict=True)
    }


def write_fields(fields: Fields, format: PlaneFormat) -> Tensor:
    """Inverse of `read_fields`."""
    parts = [_pack(fields[one.name], one.bits, one.chunk) for one in format.fields]
    return torch.cat(parts, -1)


def read_six_bits(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes [..., 12] as 8 scales and 8 mins: see `ggml_blocks.py`."""
    scales, mins, low = packed.split_with_sizes((4, 4, 4), -1)
    return (
        torch.cat((scales & 0x3F, (low & 0x0F) | ((scales >> 2) & 0x30)), -1),
        torch.cat((mins & 0x3F, (low >> 4) | ((mins >> 2) & 0x30)), -1),
    )


def write_six_bits(scales: Tensor, mins: Tensor) -> Tensor:
    """Inverse of `read_six_bits`."""
    return torch.cat(
        (
            scales[..., :4] | ((scales[..., 4:] & 0x30) << 2),
            mins[..., :4] | ((mins[..., 4:] & 0x30) << 2),
            (scales[..., 4:] & 0x0F) | ((mins[..., 4:] & 0x0F) << 4),
        ),
        -1,
    )


def _pack(fields: Tensor, bits: int, chunk: int) -> Tensor:
    """Inverse of `block_bits.unpack`, over the last dim."""
    if bits == 8:
        return fields
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=fields.device).unsqueeze(1)
    split = torch.unflatten(fields, -1, (-1, 8 // bits, chunk))
    return (split << shifts).sum(-2, dtype=torch.uint8).flatten(-2)
