"""How the blocks of each packed type are laid out, in a file and as planes.

A file's block is a list of bit fields (ggml-quants.c). As planes, the numbers of one kind lie
together for all rows, 64 columns at a time: a matrix [N, K] becomes

- `low` and `high`: the lower and upper bits of the codes, [K / 64, N, 8 lanes] of 8 numbers each.
  Lane j holds codes 16 i + 2 j and 16 i + 2 j + 1 for i = 0..3, the first four in its lower half:
  one mask takes a pair of neighbours to the two halves of a register. A lane is 8, 16 or 32 bits
  wide for codes of 1, 2 and 4 bits. Codes that are looked up lie in whole bytes instead, pair i at
  bit 8 i. Codes of 8 bits lie as two times 32 columns, [K / 32, N, 8], with i = 0..1.
- `scales` and `mins`: a word int32 [K / 64, N] for 64 codes, as `Scales` says.
- `supers`: int32 [K / 256, N], two fp16 numbers, that of the scales below that of the mins.
- `values`: int32 [256], what the two codes of a byte stand for, as two bf16 numbers.

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
    """value = scale * (code - zero) - min, or - with `values` - scale * values[code].

    Signed codes are stored with `zero` added. Those of F8_E4M3 are the 8-bit floats themselves.
    """

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


SIGN = 128

_D, _M = Field("d", 2), Field("m", 2)
_LOW16, _LOW32 = Field("low", 16, 4, 16), Field("low", 128, 4, 32)
_HIGH5 = Field("high", 4, 1)
_SIX = Field("six", 12)

PLANE_FORMATS = {
    "Q4_0": PlaneFormat("pair", (_D, _LOW16), zero=8),
    "Q4_1": PlaneFormat("pair", (_D, _M, _LOW16), has_mins=True),
    "Q5_0": PlaneFormat("pair", (_D, _HIGH5, _LOW16), high=1, zero=16),
    "Q5_1": PlaneFormat("pair", (_D, _M, _HIGH5, _LOW16), high=1, has_mins=True),
    "Q8_0": PlaneFormat("pair", (_D, Field("low", 32)), low=8, zero=SIGN),
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
    "I8": PlaneFormat("wide", (), 128, low=8, group=128, zero=SIGN),
    "F8_E4M3": PlaneFormat("wide", (), 128, low=8, group=128),
}  # fmt: skip
"""`I8`: our own, a symmetric scale for each row and 128 columns. Groups of 32 are Q8_0."""

CHUNK = 64
"""Columns whose codes lie together."""
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
    shapes["scales"] = (-(-columns // (128 if format.scales == "wide" else CHUNK)), rows)
    if format.has_mins:
        shapes["mins"] = shapes["scales"]
    if format.has_supers:
        shapes["supers"] = (-(-columns // 256), rows)
    if format.values is not None:
        shapes["values"] = (256,)
    found, start = {}, 0
    for name, shape in shapes.items():
        found[name] = Place(start, shape)
        start = -(-found[name].stop // ALIGNMENT) * ALIGNMENT
    return found, start


def _codes(bits: int, rows: int, columns: int) -> tuple[int, ...]:
    """In words: 8 lanes of 8 codes, for 8 bits two times half of them."""
    chunks = -(-columns // CHUNK)
    return (2 * chunks, rows, 8) if bits == 8 else (chunks, rows, 2 * bits)
