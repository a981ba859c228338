"""Weights of every packed type whose numbers are ordinary: random codes, sensible scales."""

from __future__ import annotations

import torch

from kernels.block_fields import read_fields, write_fields
from kernels.dequantize import BLOCK_TYPES
from kernels.eight_bit_planes import fp8_planes, int8_planes
from kernels.plane_format import PLANE_FORMATS
from kernels.quantized_weight import QuantizedWeight
from kernels.weight_planes import PlaneWeight, can_repack, repack

FILE_TYPES = [name for name in PLANE_FORMATS if can_repack(name)]
TYPES = list(PLANE_FORMATS)


def quantized(type_name: str, shape: tuple[int, ...]) -> QuantizedWeight:
    """[..., N, K] in a file's blocks: any codes, scales up to 0.02."""
    kind, format = BLOCK_TYPES[type_name], PLANE_FORMATS[type_name]
    rows = torch.Size(shape[:-1]).numel()
    blocks = torch.randint(0, 256, (rows, shape[-1] // kind.values, kind.size), dtype=torch.uint8)
    fields = read_fields(blocks, format)
    for name in {"d", "m"} & fields.keys():
        numbers = 0.02 * torch.rand(*blocks.shape[:2], 1)
        fields[name] = numbers.half().view(torch.uint8)
    if "e" in fields:
        fields["e"] = torch.randint(118, 124, fields["e"].shape, dtype=torch.uint8)
    data = write_fields(fields, format).view(*shape[:-1], -1)
    return QuantizedWeight(data, type_name, shape)


def planes(type_name: str, n: int, k: int) -> PlaneWeight:
    if type_name == "I8":
        return int8_planes(torch.randn(n, k))
    if type_name == "F8_E4M3":
        codes = (8 * torch.randn(n, k)).to(torch.float8_e4m3fn)
        return fp8_planes(codes, torch.rand(-(-n // 128), -(-k // 128)), (128, 128))
    return repack(quantized(type_name, (n, k)))
