"""Packed weights repacked for kernels: a file's blocks to aligned planes, and back without loss.

`plane_format.py` says how the planes lie. Everything here moves bits and computes nothing; numbers
come from `dequantize.py`, which decodes the blocks that the planes came from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from kernels.block_fields import read_fields, write_fields
from kernels.dequantize import BLOCK_TYPES, dequantize
from kernels.plane_format import CHUNK, PLANE_FORMATS, SIGN, PlaneFormat, places
from kernels.quantized_weight import QuantizedWeight
from kernels.scale_words import block_pairs, fields_of_scales, pair_words, scale_words, super_words

LANES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int32}
"""Of 8 codes, or 4 of 8 bits."""
CHUNK_VALUES = 2**22
"""Values repacked at a time: what is needed in between stays at some 100 MB."""


@dataclass(frozen=True, eq=False)
class PlaneWeight:
    """`data`: int32 [..., words of a matrix], `type_name`: of `PLANE_FORMATS`.

    `shape`: of the numbers, [N, K] or a stack of experts [E, N, K].
    """

    data: Tensor
    type_name: str
    shape: tuple[int, ...]

    @property
    def format(self) -> PlaneFormat:
        return PLANE_FORMATS[self.type_name]

    def __getitem__(self, index: int) -> PlaneWeight:
        """One of the stacked matrices."""
        return PlaneWeight(self.data[index], self.type_name, self.shape[1:])

    def planes(self) -> dict[str, Tensor]:
        """Views [..., *shape of a plane], by the names of `plane_format.py`."""
        where, _ = places(self.format, *self.shape[-2:])
        return {
            name: torch.unflatten(self.data[..., one.start : one.stop], -1, one.shape)
            for name, one in where.items()
        }

    def dequantize(self) -> Tensor:
        """float32 [shape], equal bit for bit to what the file's blocks decode to."""
        if len(self.shape) > 2:
            return torch.stack([self[index].dequantize() for index in range(self.shape[0])])
        rows, columns = self.shape
        planes = self.planes()
        planes.pop("values", None)
        found = torch.empty(self.shape, dtype=torch.float32, device=self.data.device)
        step = max(1, CHUNK_VALUES // columns)
        for start in range(0, rows, step):
            part = slice(start, start + step)
            found[part] = self._decode({name: one[:, part] for name, one in planes.items()})
        return found

    def rows(self, ids: Tensor) -> Tensor:
        """float32 [*ids.shape, K]: the rows named of a matrix, and no others are decoded."""
        wanted = {
            name: one.index_select(1, ids.flatten())
            for name, one in self.planes().items()
            if name != "values"
        }
        return self._decode(wanted).view(*ids.shape, -1)

    def blocks(self) -> Tensor:
        """uint8 [N, bytes of a row]: the file's blocks of a matrix again."""
        return _blocks(self.planes(), self.format, self.shape[-1])

    def _decode(self, planes: dict[str, Tensor]) -> Tensor:
        """Planes of any rows -> float32 [R, K]."""
        columns = self.shape[-1]
        if self.format.fields:
            return dequantize(_blocks(planes, self.format, columns), self.type_name)
        codes = unpack_codes(planes["low"], 8, False)[:, :columns].contiguous()
        if self.type_name == "F8_E4M3":
            numbers = codes.view(torch.float8_e4m3fn).float()
        else:
            numbers = codes.float() - self.format.zero
        scales = planes["scales"].view(torch.float32).T.repeat_interleave(128, 1)
        return numbers * scales[:, :columns]


def can_repack(type_name: str) -> bool:
    return bool(type_name in PLANE_FORMATS and PLANE_FORMATS[type_name].fields)


def repack(weight: QuantizedWeight) -> PlaneWeight:
    """A matrix [N, K], or a stack of them, as planes on the same device.

    Raises:
        ValueError: there are no planes of this type.
    """
    if not can_repack(weight.type_name):
        raise ValueError(f"there are no planes of the tensor type {weight.type_name}")
    format = PLANE_FORMATS[weight.type_name]
    *stack, rows, columns = weight.shape
    made = empty_planes(weight.type_name, weight.shape, weight.data.device)
    matrices = weight.data.reshape(math.prod(stack), rows, -1, BLOCK_TYPES[weight.type_name].size)
    step = max(1, CHUNK_VALUES // columns)
    for index, blocks in enumerate(matrices):
        single = PlaneWeight(made.data.flatten(0, -2)[index] if stack else made.data,
                             weight.type_name, (rows, columns))  # fmt: skip
        for start in range(0, rows, step):
            for name, part in _planes(blocks[start : start + step], format).items():
                single.planes()[name][:, start : start + step] = part
    return made


def empty_planes(type_name: str, shape: tuple[int, ...], device: torch.device) -> PlaneWeight:
    """Zeros: also between the planes, so that equal weights are equal words."""
    format = PLANE_FORMATS[type_name]
    _, words = places(format, *shape[-2:])
    data = torch.zeros(*shape[:-2], words, dtype=torch.int32, device=device)
    made = PlaneWeight(data, type_name, shape)
    if format.values is not None:
        made.planes()["values"].copy_(value_pairs(format.values))
    return made


def value_pairs(values: tuple[int, ...]) -> Tensor:
    """int32 [256]: of the lower code of a byte below, of the upper above."""
    numbers = torch.tensor(values, dtype=torch.bfloat16)
    byte = torch.arange(256)
    return torch.stack((numbers[byte & 15], numbers[byte >> 4]), 1).view(torch.int32).squeeze(1)


def pack_codes(codes: Tensor, bits: int, in_bytes: bool) -> Tensor:
    """uint8 [R, K] -> int32 [K / 64, R, words]; K is filled up with zeros."""
    padded = functional.pad(codes, (0, -codes.shape[1] % CHUNK))
    tiles = torch.unflatten(padded, 1, (-1, min(4, 16 // bits), 8, 2)).int()
    shifts = _shifts(bits, in_bytes, codes.device)
    lanes = (tiles << shifts).sum((2, 4), dtype=torch.int32).to(LANES[bits])
    return lanes.transpose(0, 1).contiguous().view(torch.int32)


def unpack_codes(words: Tensor, bits: int, in_bytes: bool) -> Tensor:
    """Inverse of `pack_codes`, with what K was filled up with."""
    lanes = words.contiguous().view(LANES[bits]).transpose(0, 1)[:, :, None, :, None]
    shifted = lanes.int() >> _shifts(bits, in_bytes, words.device)
    return (shifted & ((1 << bits) - 1)).to(torch.uint8).flatten(1)


def _shifts(bits: int, in_bytes: bool, device: torch.device) -> Tensor:
    """Of tile i and the first or second of a pair, [tiles, 1, 2]."""
    tile, second = (8, 4) if in_bytes else (bits, min(4 * bits, 16))
    starts = torch.arange(min(4, 16 // bits), dtype=torch.int32, device=device) * tile
    return torch.stack((starts, starts + second), 1).unsqueeze(1)


def _planes(blocks: Tensor, format: PlaneFormat) -> dict[str, Tensor]:
    """uint8 [R, blocks, bytes of a block] -> the planes of these rows."""
    fields = read_fields(blocks, format)
    low = fields["low"].flatten(1)
    if format.zero == SIGN:
        low = low ^ SIGN
    planes = {"low": pack_codes(low, format.low, format.values is not None)}
    if format.high:
        planes["high"] = pack_codes(fields["high"].flatten(1), format.high, False)
    planes["scales"] = _by_row(scale_words(fields, format)).squeeze(-1)
    if format.has_mins:
        planes["mins"] = _by_row(pair_words(fields["m"])).squeeze(-1)
    if format.has_supers:
        planes["supers"] = _by_row(super_words(fields)).squeeze(-1)
    return planes


def _blocks(planes: dict[str, Tensor], format: PlaneFormat, columns: int) -> Tensor:
    """Inverse of `_planes`: uint8 [R, bytes of a row]."""
    values = format.values_of_block
    count = columns // values
    low = unpack_codes(planes["low"], format.low, format.values is not None)
    if format.zero == SIGN:
        low = low ^ SIGN
    fields = {"low": torch.unflatten(low[:, :columns], 1, (count, values))}
    if format.high:
        high = unpack_codes(planes["high"], format.high, False)
        fields["high"] = torch.unflatten(high[:, :columns], 1, (count, values))
    fields |= fields_of_scales(_bytes(planes["scales"]), format)
    if format.has_mins:
        fields["m"] = block_pairs(_bytes(planes["mins"]))
    if format.has_supers:
        supers = _bytes(planes["supers"])
        fields |= {"d": supers[..., :2], "m": supers[..., 2:]}
    return write_fields({name: one[:, :count] for name, one in fields.items()}, format).flatten(1)


def _by_row(bytes: Tensor) -> Tensor:
    """uint8 [R, words, bytes] -> int32 [words, R, bytes / 4]."""
    return bytes.contiguous().view(torch.int32).transpose(0, 1)


def _bytes(words: Tensor) -> Tensor:
    """int32 [words, R] -> uint8 [R, words, 4]."""
    return words.T.unsqueeze(-1).contiguous().view(torch.uint8)
