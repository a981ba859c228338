"""Numbers of a head to the codes of `kernels/kv_codes.py` inside a kernel.

Rows are float32 [ROWS, WIDTH], zero beyond the head's dims. The formulas are those of the torch
file, so that both write the same codes from the same numbers.
"""

# Triton publishes no types, and reads annotations of kernels as its own.
# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import triton
import triton.language as tl

from kernels.kv_codes import FP8_MAX, FP8_SHARES, INT4_BIAS, INT8_MAX, RANGE_SHARES, UINT4_MAX

TOP8 = tl.constexpr(INT8_MAX)
TOP_FP8 = tl.constexpr(FP8_MAX)
BIAS4 = tl.constexpr(INT4_BIAS)
TOP4 = tl.constexpr(UINT4_MAX)
HALF_MAX = tl.constexpr(65504.0)
ROUNDER = tl.constexpr(12582912.0)
"""1.5 * 2^23: adding and subtracting it rounds to the nearest even integer."""
FP8_SHARE = tl.constexpr(FP8_SHARES)
FP8_SHARE_COUNT = tl.constexpr(len(FP8_SHARES))
SHARE_COUNT = tl.constexpr(len(RANGE_SHARES))
SHARE_STEP = tl.constexpr(RANGE_SHARES[0] - RANGE_SHARES[1])


@triton.jit
def rounded(x):
    return (x + ROUNDER) - ROUNDER


@triton.jit
def half(x):
    return tl.minimum(tl.maximum(x, -HALF_MAX), HALF_MAX).to(tl.float16)


@triton.jit
def divided(x, scale):
    """x / scale, 0 where the scale is; a scale per row."""
    wide = scale.to(tl.float32)
    safe = tl.where(wide == 0, 1.0, wide)
    found = tl.div_rn(x, tl.broadcast_to(safe[:, None], x.shape))
    return tl.where((wide == 0)[:, None], 0.0, found)


@triton.jit
def int8_codes(x):
    """int8 codes and an fp16 scale per row."""
    scale = half(tl.div_rn(tl.max(tl.abs(x), 1), TOP8 * 1.0))
    codes = rounded(tl.minimum(tl.maximum(divided(x, scale), -TOP8), TOP8))
    return codes.to(tl.int8), scale


@triton.jit
def fp8_codes(x):
    """e4m3 codes and an fp16 scale per row."""
    largest = tl.max(tl.abs(x), 1)
    best = tl.full(largest.shape, float("inf"), tl.float32)
    codes = tl.zeros(x.shape, tl.float32)
    scale = tl.zeros(largest.shape, tl.float16)
    for i in tl.static_range(FP8_SHARE_COUNT):
        tried_scale = half(tl.div_rn(largest * FP8_SHARE[i], TOP_FP8 * 1.0))
        tried = tl.minimum(tl.maximum(divided(x, tried_scale), -TOP_FP8), TOP_FP8)
        tried = tried.to(tl.float8e4nv).to(tl.float32)
        away = tried * tried_scale.to(tl.float32)[:, None] - x
        error = tl.sum(away * away, 1)
        better = error < best
        best = tl.where(better, error, best)
        codes = tl.where(better[:, None], tried, codes)
        scale = tl.where(better, tried_scale, scale)
    return codes.to(tl.float8e4nv), scale


@triton.jit
def codes4(x):
    """Groups of dims as rows: codes 0..15, int32, and an fp16 scale per row."""
    least, largest = tl.min(x, 1), tl.max(x, 1)
    farthest = tl.where(largest >= -least, largest, least)
    scale = half(farthest / -BIAS4)
    codes = rounded(divided(x, scale)) + BIAS4
    return tl.minimum(tl.maximum(codes, 0.0), TOP4).to(tl.int32), scale


@triton.jit
def range_codes4(x, m_dims):
    """Codes 0..15, int32, fp16 scale and zero per row; `m_dims` [1, WIDTH]: real dims."""
    least = tl.min(tl.where(m_dims, x, float("inf")), 1)
    largest = tl.max(tl.where(m_dims, x, float("-inf")), 1)
    best = tl.full(least.shape, float("inf"), tl.float32)
    codes = tl.zeros(x.shape, tl.float32)
    scale = tl.zeros(least.shape, tl.float16)
    zero = tl.zeros(least.shape, tl.float16)
    for i in tl.static_range(SHARE_COUNT):
        cut = (largest - least) * (SHARE_STEP * i / 2)
        tried_zero = half(least + cut)
        wide_zero = tried_zero.to(tl.float32)
        tried_scale = half(tl.div_rn(tl.maximum(largest - cut - wide_zero, 0.0), TOP4 * 1.0))
        tried = rounded(divided(x - wide_zero[:, None], tried_scale))
        tried = tl.minimum(tl.maximum(tried, 0.0), TOP4)
        found = tried * tried_scale.to(tl.float32)[:, None] + wide_zero[:, None]
        error = tl.sum(tl.where(m_dims, (found - x) * (found - x), 0.0), 1)
        better = error < best
        best = tl.where(better, error, best)
        codes = tl.where(better[:, None], tried, codes)
        scale = tl.where(better, tried_scale, scale)
        zero = tl.where(better, tried_zero, zero)
    return codes.to(tl.int32), scale, zero
