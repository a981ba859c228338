"""Reading tiles of 16 codes a row from weight planes, and the scales of their groups.

`kernels/plane_format.py` says how the planes lie. Codes come out as bf16, exactly: integers are
made by setting bits of a larger number, others are what they stand for.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

PAIR_OF_128 = tl.constexpr(0x43004300)
"""Two bf16 numbers whose last bits are ones: setting the lower 7 adds an integer."""
PAIR_OF_256 = tl.constexpr(0x43804380)
"""The same for twos."""
LIFTS = {"small": 128, "bytes": 256 + 128, "values": 0, "floats": 0}
"""What is added to codes that are made by setting bits."""


@triton.jit
def neighbours(v, DTYPE: tl.constexpr, BN: tl.constexpr):
    """int32 [BN, 8] that hold two numbers of 16 bits each -> [BN, 16]. Costs nothing."""
    first = (v & 0xFFFF).to(tl.int16).to(DTYPE, bitcast=True)
    second = (v >> 16).to(tl.int16).to(DTYPE, bitcast=True)
    return tl.reshape(tl.join(first, second), (BN, 16))


@triton.jit
def load_lanes(p_plane, unit, units, row, m_row, n, EVEN: tl.constexpr):
    """Lanes [BN, 8] of codes, in the pointer's type; zeros beyond the plane. row int64 [BN]."""
    m = m_row if EVEN else m_row & (tl.full(m_row.shape, unit, tl.int32) < units)
    p_rows = p_plane + (unit * n + row)[:, None] * 8 + tl.arange(0, 8)[None, :]
    return tl.load(p_rows, mask=m[:, None], other=0)


@triton.jit
def load_words(p_plane, index, count, row, m_row, n, EVEN: tl.constexpr):
    """Words [BN] of scales; zeros beyond the plane."""
    m = m_row if EVEN else m_row & (tl.full(m_row.shape, index, tl.int32) < count)
    return tl.load(p_plane + index * n + row, mask=m, other=0)


@triton.jit
def load_narrow(p_words, chunk, row, m_row, n, k, BITS: tl.constexpr, EVEN: tl.constexpr):
    """Lanes of 64 codes of 1 or 2 bits, the second half of each moved to the upper 16 bits."""
    LANE: tl.constexpr = tl.int8 if BITS == 1 else tl.int16
    HALF: tl.constexpr = (1 << (4 * BITS)) - 1
    p_lanes = p_words.to(tl.pointer_type(LANE), bitcast=True)
    v = load_lanes(p_lanes, chunk, tl.cdiv(k, 64), row, m_row, n, EVEN).to(tl.int32)
    return (v & HALF) | ((v << (16 - 4 * BITS)) & (HALF << 16))


@triton.jit
def load_low(p_words, chunk, row, m_row, n, k, LOW: tl.constexpr, EVEN: tl.constexpr):
    """Lanes of the lower bits of 64 columns: those of the first and of the second half."""
    if LOW == 8:
        units = 2 * tl.cdiv(k, 64)
        first = load_lanes(p_words, 2 * chunk, units, row, m_row, n, EVEN)
        return first, load_lanes(p_words, 2 * chunk + 1, units, row, m_row, n, EVEN)
    elif LOW == 2:
        both = load_narrow(p_words, chunk, row, m_row, n, k, LOW, EVEN)
        return both, both
    else:
        both = load_lanes(p_words, chunk, tl.cdiv(k, 64), row, m_row, n, EVEN)
        return both, both


@triton.jit
def small_codes(w, h, TILE: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, BN: tl.constexpr):
    """128 + codes of at most 7 bits, bf16 [BN, 16]."""
    v = ((w >> (LOW * TILE)) & (((1 << LOW) - 1) * 0x10001)) | PAIR_OF_128
    if HIGH > 0:
        MASK: tl.constexpr = ((1 << HIGH) - 1) * 0x10001 << LOW
        if HIGH * TILE < LOW:
            v |= (h << (LOW - HIGH * TILE)) & MASK
        else:
            v |= (h >> (HIGH * TILE - LOW)) & MASK
    return neighbours(v, tl.bfloat16, BN)


@triton.jit
def byte_codes(w, TILE: tl.constexpr, BN: tl.constexpr):
    """Two summands, 256 + the upper 7 bits of 8 and 128 + the lowest: bf16 holds no more."""
    upper = ((w >> (8 * (TILE % 2) + 1)) & 0x007F007F) | PAIR_OF_256
    lowest = ((w >> (8 * (TILE % 2))) & 0x00010001) | PAIR_OF_128
    return neighbours(upper, tl.bfloat16, BN), neighbours(lowest, tl.bfloat16, BN)


@triton.jit
def float_codes(w, TILE: tl.constexpr, BN: tl.constexpr):
    """8-bit floats e4m3 times 2 ** -8: their bits, moved, are fp16 numbers."""
    v = w >> (8 * (TILE % 2))
    bits = ((v & 0x00800080) << 8) | ((v & 0x007F007F) << 7)
    return neighbours(bits, tl.float16, BN).to(tl.float32).to(tl.bfloat16)


@triton.jit
def looked_up_codes(w, p_values, TILE: tl.constexpr, BN: tl.constexpr):
    """What the codes stand for; `p_values`: two at once, for each byte."""
    return neighbours(tl.load(p_values + ((w >> (8 * TILE)) & 0xFF)), tl.bfloat16, BN)


@triton.jit
def add_tile(
    dot, x, w, h, p_values, TILE: tl.constexpr, CODES: tl.constexpr, LOW: tl.constexpr,
    HIGH: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """dot [BN, ROWS] and the product of 16 columns, x [16, ROWS]."""
    if CODES == "small":
        return tl.dot(small_codes(w, h, TILE, LOW, HIGH, BN), x, dot)
    elif CODES == "values":
        return tl.dot(looked_up_codes(w, p_values, TILE, BN), x, dot)
    elif CODES == "bytes":
        upper, lowest = byte_codes(w, TILE, BN)
        return tl.dot(lowest, x, tl.dot(upper, x, dot))
    else:
        return tl.dot(float_codes(w, TILE, BN), x, dot)


@triton.jit
def half_of(word, UPPER: tl.constexpr):
    """The fp16 number in the lower or upper half of a word, as float32."""
    bits = (word >> 16) if UPPER else (word & 0xFFFF)
    return bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def unsigned_byte(word, PART: tl.constexpr):
    return ((word >> (8 * PART)) & 0xFF).to(tl.float32)


@triton.jit
def signed_byte(word, PART: tl.constexpr):
    return ((word << (24 - 8 * PART)) >> 24).to(tl.float32)


@triton.jit
def group_scale(word, d, PART: tl.constexpr, SCALES: tl.constexpr, CODES: tl.constexpr):
    """Scales [BN] of group `PART` of the word, float32; `d`: the super-scales."""
    if SCALES == "pair":
        return half_of(word, PART == 1)
    elif SCALES == "pair_bf16":
        bits = (word >> 16) << 16 if PART == 1 else word << 16
        return bits.to(tl.float32, bitcast=True)
    elif SCALES == "bytes_mins":
        return unsigned_byte(word, PART) * d
    elif SCALES == "bytes":
        return signed_byte(word, PART) * d
    elif SCALES == "nibbles":
        return ((word >> (8 * PART)) & 0xF).to(tl.float32) * d
    elif SCALES == "super_bytes":
        return signed_byte(word, 2 + PART) * half_of(word, False)
    else:
        # 8-bit floats are read times 2 ** -8.
        wide = word.to(tl.float32, bitcast=True)
        return wide * 256 if CODES == "floats" else wide


@triton.jit
def group_min(word, min_word, m, PART: tl.constexpr, SCALES: tl.constexpr):
    """What is taken away from every number of the group; `m`: the super-mins."""
    if SCALES == "bytes_mins":
        return unsigned_byte(word, 2 + PART) * m
    elif SCALES == "nibbles":
        return ((word >> (8 * PART + 4)) & 0xF).to(tl.float32) * m
    else:
        # The types with two plain numbers add the second.
        return -half_of(min_word, PART == 1)
