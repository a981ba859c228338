"""How the blocks of each packed type are laid out, in a file and as planes.

A file's block is a list of bit fields (ggml-quants.c). As planes, the numbers of one kind lie
together for all rows: a matrix [N, K] becomes

- `low` and `high`: the lower and upper bits of the codes, int32 [K / unit, N, 8] with 256 / bits
  codes a unit. Word j of a unit holds codes 16 i + 2 j (at bit `bits * i`) and 16 i + 2 j + 1 (16
  bits above) for every i: one mask takes a pair of neighbours to the two halves of a register.
  Codes that are looked up lie in whole bytes instead, pair i at bit 8 i. Codes of 8 bits lie in
  order, [K / 16, N, 16].
- `scales` and `mins`: a word int32 [K / 64, N] for 64 codes, as `Scales` says.
- `supers`: int32 [K / 256, N], two fp16 numbers, that of the scales below that of the mins.

So a tile of rows is one contiguous piece of memory at every K, whatever its height.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from kernels.ggml_blocks import E2M1_DOUBLED, NL_VALUES

Scales = Literal["pair", "pair_bf16", "bytes_mins", "bytes", "nibbles", "super_bytes", "wide"]
"""What a word of `scales` holds.

pair: fp16 of two groups of 32; pair_bf16: the same in bf16; bytes_mins: scales of two groups, then
mins of the two, all uint8; bytes: int8 of four groups of 16; nibbles: of four groups of 16, scale
below min; super_bytes: an fp16 number, then int8 of two groups that it multiplies; wide: a
float32 number of 128 codes.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """`size` bytes of a block; `bits` and `chunk` as in `block_bits.unpack`; 8 bits: kept whole."""

    name: str
    size: int
    bits: int = 8
    chunk: int = 1


@dataclass(frozen=True, slots=True)
class PlaneFormat:
    """value = scale * (code - zero) - min, or - with `values` - scale * values[code]."""

    scales: Scales
    fields: tuple[Field, ...]
    """Of a file's block, in order; empty for types that no GGUF file has."""
    values_of_block: int = 32
    low: int = 4
    high: int = 0
    group: int = 32
    zero: int = 0
    has_mins: bool = False
    values: tuple[int, ...] | None = None

    @property
    def has_supers(self) -> bool:
        return self.scales in ("bytes_mins", "bytes", "nibbles")


_D, _M = Field("d", 2), Field("m", 2)
_LOW16, _LOW32 = Field("low", 16, 4, 16), Field("low", 128, 4, 32)
_HIGH5 = Field("high", 4, 1)
_SIX = Field("six", 12)

PLANE_FORMATS = {
    "Q4_0": PlaneFormat("pair", (_D, _LOW16), zero=8),
    "Q4_1": PlaneFormat("pair", (_D, _M, _LOW16), has_mins=True),
    "Q5_0": PlaneFormat("pair", (_D, _HIGH5, _LOW16), high=1, zero=16),
    "Q5_1": PlaneFormat("pair", (_D, _M, _HIGH5, _LOW16), high=1, has_mins=True),
    "Q8_0": PlaneFormat("pair", (_D, Field("low", 32)), low=8),
    "Q2_K": PlaneFormat(
        "nibbles",
        (Field("sub", 16), Field("low", 64, 2, 32), _D, _M),
        256, low=2, group=16,
    ),
    "Q3_K": PlaneFormat(
        "bytes",
        (Field("high", 32, 1, 32), Field("low", 64, 2, 32), Field("sub_low", 8, 4, 8),
         Field("sub_high", 4, 2, 4), _D),
        256, low=2, high=1, group=16, zero=4,
    ),
    "Q4_K": PlaneFormat("bytes_mins", (_D, _M, _SIX, _LOW32), 256),
    "Q5_K": PlaneFormat(
        "bytes_mins", (_D, _M, _SIX, Field("high", 32, 1, 32), _LOW32), 256, high=1
    ),
    "Q6_K": PlaneFormat(
        "bytes",
        (Field("low", 128, 4, 64), Field("high", 64, 2, 32), Field("sub", 16), _D),
        256, high=2, group=16, zero=32,
    ),
    "IQ4_NL": PlaneFormat("pair", (_D, _LOW16), values=NL_VALUES),
    "IQ4_XS": PlaneFormat(
        "super_bytes",
        (_D, Field("sub_high", 2, 2), Field("sub_low", 4, 4), Field("low", 128, 4, 16)),
        256, values=NL_VALUES,
    ),
    "MXFP4": PlaneFormat("pair_bf16", (Field("e", 1), _LOW16), values=E2M1_DOUBLED),
    "I8": PlaneFormat("wide", (), 128, low=8, group=128),
    "F8_E4M3": PlaneFormat("wide", (), 128, low=8, group=128),
}  # fmt: skip
"""`I8`: our own, a symmetric scale for each row and 128 columns. Groups of 32 are Q8_0."""

ALIGNMENT = 32
"""Words from whose multiples planes begin: 128 bytes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a plane lies among the words of a matrix."""

    start: int
    shape: tuple[int, ...]

    @property
    def stop(self) -> int:
        return self.start + math.prod(self.shape)


def places(format: PlaneFormat, rows: int, columns: int) -> tuple[dict[str, Place], int]:
    """The planes of a matrix by name, and the words that it takes."""
    shapes = {"low": _codes(format.low, rows, columns)}
    if format.high:
        shapes["high"] = _codes(format.high, rows, columns)
    shapes["scales"] = (-(-columns // (128 if format.scales == "wide" else 64)), rows)
    if format.has_mins:
        shapes["mins"] = shapes["scales"]
    if format.has_supers:
        shapes["supers"] = (-(-columns // 256), rows)
    found, start = {}, 0
    for name, shape in shapes.items():
        found[name] = Place(start, shape)
        start = -(-found[name].stop // ALIGNMENT) * ALIGNMENT
    return found, start


def _codes(bits: int, rows: int, columns: int) -> tuple[int, ...]:
    unit = 256 // bits if bits < 8 else 16
    return -(-columns // unit), rows, unit * bits // 32
