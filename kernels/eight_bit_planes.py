"""Matrices of 8-bit codes as planes: floats of safetensors, and integers of our own making."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from kernels.plane_format import SIGN
from kernels.weight_planes import CHUNK_VALUES, PlaneWeight, empty_planes, pack_codes

COLUMNS_OF_SCALE = 128
LARGEST = 127
FP8_LARGEST = 0x7F
"""Of the code without its sign: not a number."""

_Encode = Callable[[slice], tuple[Tensor, Tensor]]
"""Rows -> their codes uint8 [R, K] and scales float32 [R, K / 128]."""


def int8_planes(matrix: Tensor) -> PlaneWeight:
    """[N, K] or a stack [E, N, K] -> integers of -127 to 127, a float32 scale for each row and 128
    columns, made some rows at a time.

    K a multiple of 32. Groups of 32 with fp16 scales are GGUF's Q8_0.
    """
    made = empty_planes("I8", tuple(matrix.shape), matrix.device)
    if matrix.dim() == 2:
        _round_into(made, matrix)
    else:
        for index in range(matrix.shape[0]):
            _round_into(made[index], matrix[index])
    return made


def fp8_planes(matrix: Tensor, scale: Tensor, block: tuple[int, int] | None) -> PlaneWeight:
    """e4m3 [N, K] and its scale as safetensors have it: of the whole, of each row, or of blocks.

    K a multiple of 32; `block`: rows and columns of a block, columns a multiple of 128.

    Raises:
        ValueError: blocks are of other columns, or a code is not a number.
    """
    codes, scales = matrix.view(torch.uint8), scales_of_rows(matrix.shape, scale, block)
    made = empty_planes("F8_E4M3", tuple(matrix.shape), matrix.device)
    _fill(made, lambda rows: (_numbers(codes[rows]), scales[rows]))
    return made


def scales_of_rows(shape: tuple[int, ...], scale: Tensor, block: tuple[int, int] | None) -> Tensor:
    """float32 [N, K / 128] of a matrix [N, K], from a scale as `fp8_planes` takes it."""
    rows, columns = shape
    groups = -(-columns // COLUMNS_OF_SCALE)
    wide = scale.float()
    if wide.numel() == 1:
        return wide.reshape(1, 1).expand(rows, groups)
    if block is None or wide.shape in ((rows,), (rows, 1)):
        return wide.reshape(rows, 1).expand(rows, groups)
    if block[1] % COLUMNS_OF_SCALE:
        raise ValueError(f"blocks of {block[1]} columns are no multiple of {COLUMNS_OF_SCALE}")
    tall = wide.repeat_interleave(block[0], 0)[:rows]
    return tall.repeat_interleave(block[1] // COLUMNS_OF_SCALE, 1)[:, :groups]


def _round_into(made: PlaneWeight, matrix: Tensor) -> None:
    _fill(made, lambda rows: _rounded(matrix[rows]))


def _rounded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    columns = matrix.shape[1]
    padded = functional.pad(matrix.float(), (0, -columns % COLUMNS_OF_SCALE))
    groups = torch.unflatten(padded, 1, (-1, COLUMNS_OF_SCALE))
    scales = groups.abs().amax(2) / LARGEST
    codes = (groups / scales.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(2)).round()
    return (codes.flatten(1)[:, :columns] + SIGN).to(torch.uint8), scales


def _numbers(codes: Tensor) -> Tensor:
    if bool(((codes & 0x7F) == FP8_LARGEST).any()):
        raise ValueError("an 8-bit float is not a number")
    return codes


def _fill(made: PlaneWeight, encode: _Encode) -> None:
    """The planes of a matrix, some rows at a time."""
    rows, columns = made.shape
    planes = made.planes()
    step = max(1, CHUNK_VALUES // columns)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        codes, scales = encode(part)
        planes["low"][:, part] = pack_codes(codes, 8, False)
        planes["scales"][:, part] = scales.T.contiguous().view(torch.int32)
