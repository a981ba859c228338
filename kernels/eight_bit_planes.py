"""Matrices of 8-bit codes as planes: floats of safetensors, and integers of our own making."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kernels.plane_format import SIGN
from kernels.weight_planes import PlaneWeight, empty_planes, pack_codes

COLUMNS_OF_SCALE = 128
LARGEST = 127
FP8_LARGEST = 0x7F
"""Of the code without its sign: not a number."""


def int8_planes(matrix: Tensor) -> PlaneWeight:
    """[N, K] -> integers of -127 to 127, a float32 scale for each row and 128 columns.

    K a multiple of 32. Groups of 32 with fp16 scales are GGUF's Q8_0.
    """
    columns = matrix.shape[1]
    padded = functional.pad(matrix.float(), (0, -columns % COLUMNS_OF_SCALE))
    groups = torch.unflatten(padded, 1, (-1, COLUMNS_OF_SCALE))
    scales = groups.abs().amax(2) / LARGEST
    codes = (groups / scales.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(2)).round()
    stored = (codes.flatten(1)[:, :columns] + SIGN).to(torch.uint8)
    return _planes("I8", stored, scales)


def fp8_planes(matrix: Tensor, scale: Tensor, block: tuple[int, int] | None) -> PlaneWeight:
    """e4m3 [N, K] and its scale as safetensors have it: of the whole, of each row, or of blocks.

    K a multiple of 32; `block`: rows and columns of a block, columns a multiple of 128.

    Raises:
        ValueError: blocks are of other columns, or a code is not a number.
    """
    rows, columns = matrix.shape
    codes = matrix.view(torch.uint8)
    if bool(((codes & 0x7F) == FP8_LARGEST).any()):
        raise ValueError("an 8-bit float is not a number")
    groups = -(-columns // COLUMNS_OF_SCALE)
    wide = scale.float()
    if wide.numel() == 1:
        return _planes("F8_E4M3", codes, wide.reshape(1, 1).expand(rows, groups))
    if block is None or wide.shape in ((rows,), (rows, 1)):
        return _planes("F8_E4M3", codes, wide.reshape(rows, 1).expand(rows, groups))
    if block[1] % COLUMNS_OF_SCALE:
        raise ValueError(f"blocks of {block[1]} columns are no multiple of {COLUMNS_OF_SCALE}")
    tall = wide.repeat_interleave(block[0], 0)[:rows]
    return _planes(
        "F8_E4M3", codes, tall.repeat_interleave(block[1] // COLUMNS_OF_SCALE, 1)[:, :groups]
    )


def _planes(type_name: str, codes: Tensor, scales: Tensor) -> PlaneWeight:
    """codes uint8 [N, K], scales float32 [N, K / 128]."""
    made = empty_planes(type_name, tuple(codes.shape), codes.device)
    planes = made.planes()
    planes["low"].copy_(pack_codes(codes, 8, False))
    planes["scales"].copy_(scales.T.contiguous().view(torch.int32))
    return made
