"""Tile sizes of the kernels for each generation of NVIDIA devices, and why they are what they are.

Nothing is tuned while the program runs: results would depend on the tuner. Registers and shared
memory were read from compiled kernels (Triton 3.9), at heads of 128 dims where nothing else is
said; none of it was timed. A device of a generation that is not named takes the tiles of the last
one before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.kv_layout import KVFormat

Capability = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Splitting:
    """`count` shares at most, of at least `least` keys, in whole tiles of `tile` keys."""

    count: int = 64
    least: int = 256
    tile: int = 128
    warps: int = 4
    stages: int = 2


@dataclass(frozen=True, slots=True)
class PrefillTile:
    """`rows`: tokens times heads of a group, that padded to a power of two; `keys` of a step.
    `registers` that a thread may have; None: the assembler weighs them against more programs.
    """

    rows: int = 128
    keys: int = 64
    warps: int = 8
    stages: int = 2
    registers: int | None = None


DECODE = Splitting()
"""A tile of 128 keys costs the fewest instructions a byte: 1.0 for bf16 against 1.6 of 64 keys, 4.4
against 5.1 for 8 bits. 96-127 registers, 74 KiB at most: fits everywhere.
"""
DECODE_WIDE = Splitting(tile=64, stages=3)
"""Heads of more than 128 dims: a tile of 128 keys neither fits 99 KiB nor the registers."""
DECODE_NARROW_NIBBLES = Splitting(tile=64)
"""4-bit V under 8-bit K, heads of 64 dims or fewer, from 9.0 on: a tile of 128 keys stores a
register in its loop on 12.0, and spills under a window on 9.0. 64 keys take 14.3 instructions a
byte instead of 12.2.
"""
VERIFY_COUNT = 16
"""Shares for several new tokens of a sequence. Room for results grows with rows times shares: 64 of
them would take 300 MB for 64 drafts of an 8B model, and rows fill the device by themselves.
"""

PREFILL_SHALLOW = PrefillTile()
"""204-210 registers and 65 KiB on 8.9 and 12.0, whose programs have 99 KiB."""
PREFILL_DEEP = PrefillTile(stages=3)
"""One more tile on its way: 214 registers and 66 KiB on 8.0, 185 and 99 KiB on 9.0, no spills."""
PREFILL_PACKED = PrefillTile(rows=64, warps=4, registers=255)
"""8-bit K and V are held twice, as codes and as numbers: 128 rows spill. Of what does not, 64 rows
in 4 warps take the fewest instructions a row and key.
"""
PREFILL_FP8 = PrefillTile(rows=64, warps=4, stages=1, registers=255)
"""fp8 where a program has 99 KiB: of 40 KiB two fit a processor and hide each other's loads. With a
second tile on its way it is 56 KiB, and spills with Triton 3.6.
"""
PREFILL_UNEVEN = PrefillTile(rows=64, keys=32, warps=4, registers=255)
"""8-bit K of heads of 80 and 96 dims, computed as 64 and 64: 64 keys spill but for 9.0 and 10.0. A
fifth more instructions a row and key than of 64, 195-214 registers.
"""
PREFILL_WIDE = PrefillTile(rows=64, keys=32)
"""Heads of more than 128 dims: 186-192 registers, 70 KiB (99 KiB on 9.0)."""
PREFILL_WIDE_PACKED = PrefillTile(rows=64, stages=1, registers=255)
"""The same of 8 bits, whose codes are made numbers: 207-255 registers, 72 KiB at most. Of 64 keys
each thread makes numbers of 16 neighbours: 57 % of the instructions a row and key that 32 keys
take, on 9.0 72 %.
"""
PREFILL_NIBBLES = PrefillTile(rows=64, stages=1)
"""4-bit V: 163-255 registers, which leave no room for a second tile on its way; 4 warps spill."""
PREFILL_WIDE_NIBBLES = PrefillTile(rows=32, stages=1, registers=255)
"""The same of more than 128 dims: 211-254 registers, and 57 % of the instructions a row and key
that 64 rows of 16 keys take, the most keys that 64 rows leave room for.
"""
PREFILL_WIDE_NIBBLES_GROUPED = PrefillTile(rows=64, keys=16, stages=1)
"""On 9.0 and 10.0: instructions of a warp group begin at 64 rows. 182-189 registers."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Of one generation; `uneven`: 8-bit K of heads of 80 and 96 dims, None as of 128;
    `wide_nibbles`: 4-bit V of heads of more than 128 dims.
    """

    prefill: PrefillTile
    fp8: PrefillTile = PREFILL_FP8
    uneven: PrefillTile | None = PREFILL_UNEVEN
    wide_nibbles: PrefillTile = PREFILL_WIDE_NIBBLES


GENERATIONS: dict[Capability, Tiles] = {
    (8, 0): Tiles(PREFILL_DEEP),
    # Consumer devices: 99 KiB of shared memory a program.
    (8, 6): Tiles(PREFILL_SHALLOW),
    (8, 9): Tiles(PREFILL_SHALLOW),
    (9, 0): Tiles(PREFILL_DEEP, PREFILL_PACKED, None, wide_nibbles=PREFILL_WIDE_NIBBLES_GROUPED),
    (10, 0): Tiles(PREFILL_DEEP, PREFILL_PACKED, None, wide_nibbles=PREFILL_WIDE_NIBBLES_GROUPED),
    (12, 0): Tiles(PREFILL_SHALLOW),
}
_OLDEST = (8, 0)


def generation(capability: Capability | None) -> Tiles:
    """None, and what is older than all: tiles that fit everywhere."""
    if capability is None:
        return GENERATIONS[(8, 9)]
    known = [one for one in GENERATIONS if one <= capability]
    return GENERATIONS[max(known, default=_OLDEST)]


def splitting_for(
    size: int, kind: KVFormat, rows: int = 1, capability: Capability | None = None
) -> Splitting:
    """For heads of `size` dims and `rows` new tokens a sequence."""
    plan = DECODE if size <= 128 else DECODE_WIDE
    is_new = capability is not None and capability >= (9, 0)
    if is_new and size <= 64 and (kind.k, kind.v) == ("int8", "int4"):
        plan = DECODE_NARROW_NIBBLES
    if rows == 1:
        return plan
    return Splitting(VERIFY_COUNT, plan.least, plan.tile, plan.warps, plan.stages)


def tile_for(size: int, kind: KVFormat, capability: Capability | None = None) -> PrefillTile:
    """For heads of `size` dims."""
    if size > 128:
        return _tile_for_wide_heads(kind, generation(capability))
    if kind.v == "int4":
        return PREFILL_NIBBLES
    tiles = generation(capability)
    if size in (80, 96) and kind.k in ("int8", "fp8") and tiles.uneven is not None:
        return tiles.uneven
    if size > 64 and kind.k == "fp8":
        return tiles.fp8
    return PREFILL_PACKED if size > 64 and kind.k == "int8" else tiles.prefill


def _tile_for_wide_heads(kind: KVFormat, tiles: Tiles) -> PrefillTile:
    if kind.v == "int4":
        return tiles.wide_nibbles
    return PREFILL_WIDE_PACKED if kind.k in ("int8", "fp8") else PREFILL_WIDE
