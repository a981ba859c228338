"""How keys and values lie in the paged pool, per storage format.

The pool is one byte tensor [blocks, record_bytes]. A record holds one block of `BS` tokens for all
layers, K, V and their scales together, so that one contiguous copy parks, restores or moves a block
and no scale can be left behind. Each part begins at a multiple of 128 bytes.

Shapes of a layer's parts, `Hkv` KV heads of size `D`:

| format | K | V |
|---|---|---|
| f32, f16, bf16 | [Hkv, BS, D] | [Hkv, BS, D] |
| k8 | int8 [Hkv, BS, D] | bf16 [Hkv, BS, D] |
| q8 | int8 [Hkv, BS, D] | int8 [Hkv, D, BS], transposed |
| fp8 | e4m3 [Hkv, BS, D] | e4m3 [Hkv, D, BS], transposed |
| k8v4 | int8 [Hkv, BS, D] | bytes [Hkv, D, BS / 2]: token n low, token n + BS / 2 high |
| q4 | bytes [Hkv, BS, D / 2]: dim d low, dim d + R / 2 high | as k8v4 |

R is the largest power of two that divides D, the dims that are rotated together: a byte of K holds
two of the same R dims, those of each R one behind the other.

Scales are fp16: [Hkv, P, BS] for each of K and V in 8 bits, P equal parts of a head: one, or those
of 64 dims in heads wider than 128; a 4-bit K has one per 32 dims, [Hkv, BS, ceil(D / 32)]; a 4-bit
V has a scale and a zero, [Hkv, P, BS] each. Integers of K are kept after a Hadamard rotation
(`hadamard.py`), and so are 4-bit integers of V. fp8 is not: it has room for outliers, and a
rotation would make them everyone's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

PART_ALIGNMENT = 128
SCALE_BYTES = 2
BLOCK_TOKENS = 64
K_GROUP = 32
"""Dims that share a scale of a 4-bit K."""
PART_DIMS = 64
WIDE_HEAD = 128
"""Heads of more dims have a scale for every part of `PART_DIMS`: the more dims share one, the
larger its steps. Models of 256 dims need it to lose about as little as those of 64.
"""

VALUE_BITS = {"f32": 32, "f16": 16, "bf16": 16, "int8": 8, "fp8": 8, "int4": 4}


@dataclass(frozen=True, slots=True)
class KVFormat:
    """What K and V are stored as."""

    name: str
    k: str
    v: str

    @property
    def rotates_k(self) -> bool:
        """Whether K, and Q alike, is rotated before it is stored."""
        return self.k in ("int8", "int4")

    @property
    def rotates_v(self) -> bool:
        """Whether V is stored rotated, to be undone after attention."""
        return self.v == "int4"


KV_FORMATS = {
    one.name: one
    for one in (
        KVFormat("f32", "f32", "f32"),
        KVFormat("f16", "f16", "f16"),
        KVFormat("bf16", "bf16", "bf16"),
        KVFormat("k8", "int8", "bf16"),
        KVFormat("q8", "int8", "int8"),
        KVFormat("fp8", "fp8", "fp8"),
        KVFormat("k8v4", "int8", "int4"),
        KVFormat("q4", "int4", "int4"),
    )
}


def rotated_dims(head_size: int) -> int:
    """Neighbouring dims of a head that one rotation mixes: a power of two."""
    return head_size & -head_size


def scale_parts(head_size: int) -> int:
    """Equal parts of a head that are scaled each for itself."""
    is_wide = head_size > WIDE_HEAD and head_size % PART_DIMS == 0
    return head_size // PART_DIMS if is_wide else 1


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a record: where a part begins and how many it has."""

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True, slots=True)
class LayerParts:
    """A layer's parts inside a record; empty parts have size 0."""

    k: Part
    v: Part
    k_scale: Part
    v_scale: Part
    v_zero: Part


@dataclass(frozen=True)
class KVLayout:
    """Layout of a pool whose layers have equal heads; `layers` counts them."""

    format: KVFormat
    layers: int
    kv_heads: int
    head_size: int
    block: int = BLOCK_TOKENS

    @cached_property
    def parts(self) -> tuple[LayerParts, ...]:
        """Of each layer."""
        found, start = [], 0
        for _ in range(self.layers):
            made = []
            for size in self._sizes():
                made.append(Part(start, size))
                start += -(-size // PART_ALIGNMENT) * PART_ALIGNMENT
            found.append(LayerParts(*made))
        return tuple(found)

    @property
    def scale_parts(self) -> int:
        """Parts of a head that are scaled each for itself; 1 where nothing is scaled."""
        is_scaled = {self.format.k, self.format.v} & {"int8", "fp8", "int4"}
        return scale_parts(self.head_size) if is_scaled else 1

    @property
    def record_bytes(self) -> int:
        sizes = (-(-size // PART_ALIGNMENT) * PART_ALIGNMENT for size in self._sizes())
        return self.layers * sum(sizes)

    @property
    def bytes_per_token(self) -> float:
        return self.record_bytes / self.block

    def _sizes(self) -> tuple[int, int, int, int, int]:
        rows = self.kv_heads * self.block
        values = rows * self.head_size
        k = values * VALUE_BITS[self.format.k] // 8
        v = values * VALUE_BITS[self.format.v] // 8
        parts = self.scale_parts
        groups = {"int8": parts, "fp8": parts, "int4": -(-self.head_size // K_GROUP)}
        k_scale = rows * groups.get(self.format.k, 0) * SCALE_BYTES
        of_v = rows * parts * SCALE_BYTES
        v_scale = of_v if self.format.v in ("int8", "fp8", "int4") else 0
        v_zero = of_v if self.format.v == "int4" else 0
        return k, v, k_scale, v_scale, v_zero
