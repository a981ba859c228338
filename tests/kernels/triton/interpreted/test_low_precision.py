"""The mended interpreter against torch and numpy: every code, every cast that the kernels use."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from tests.kernels.triton.low_precision import LowPrecisionArithmetic

FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]
LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


@triton.jit
def copy_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i).to(y.dtype.element_ty))


@triton.jit
def dot_kernel(a, b, c, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    left = tl.load(a + m[:, None] * K + k)
    right = tl.load(b + k[:, None] * N + n)
    tl.store(c + m[:, None] * N + n, tl.dot(left, right))


@triton.jit
def add_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i) + tl.load(x + i))


@triton.jit
def sum_kernel(x, y, N: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, N)), 0))


@triton.jit
def compare_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, (tl.load(x + i) > tl.load(x + i)).to(tl.int32))


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    found = torch.empty(x.numel(), dtype=dtype)
    copy_kernel[(1,)](x, found, N=x.numel())
    return found


def equal(found: Tensor, wanted: Tensor) -> bool:
    """Numbers alike, NaN where the other is NaN, signs of zero included."""
    found, wanted = found.double(), wanted.double()
    same = (found == wanted) & (found.signbit() == wanted.signbit())
    return bool((same | (found.isnan() & wanted.isnan())).all())


def every_bf16() -> Tensor:
    return torch.arange(2**16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)


def every_fp8(dtype: torch.dtype) -> Tensor:
    return torch.arange(2**8, dtype=torch.uint8).view(dtype)


def between() -> Tensor:
    """float32 numbers around the middles of even and odd bf16 codes and their followers."""
    codes = torch.arange(2**13) * 8 + torch.arange(2**13) % 2
    found = torch.cat([(codes << 16) + low for low in (0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    return found.to(torch.uint32).view(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_every_bf16_is_read_as_its_number(dtype: torch.dtype) -> None:
    codes = every_bf16()
    with np.errstate(over="ignore"):
        assert equal(cast(codes, dtype), codes.to(dtype))


@pytest.mark.parametrize("code", FP8)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_fp8_is_read_as_its_number(code: torch.dtype, dtype: torch.dtype) -> None:
    codes = every_fp8(code)
    assert equal(cast(codes, dtype), codes.to(dtype))


def test_float32_is_rounded_to_the_nearest_bf16() -> None:
    x = between()
    assert equal(cast(x, torch.bfloat16), x.to(torch.bfloat16))


@pytest.mark.parametrize("dtype", FP8)
def test_float32_is_rounded_to_the_nearest_fp8_and_saturated(dtype: torch.dtype) -> None:
    top = LARGEST[dtype]
    x = torch.cat([torch.linspace(-2 * top, 2 * top, 2**13), torch.randn(2**13) * 0.01])
    assert equal(cast(x, dtype), x.clamp(-top, top).to(dtype))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_integers_become_bf16_numbers(dtype: torch.dtype) -> None:
    x = torch.arange(-128, 128).to(dtype)
    assert equal(cast(x, torch.bfloat16), x.to(torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, *FP8])
def test_dot_is_close_to_float64(dtype: torch.dtype) -> None:
    a, b = torch.randn(16, 64).to(dtype), torch.randn(64, 32).to(dtype)
    found = torch.full((16, 32), torch.nan)
    dot_kernel[(1,)](a, b, found, M=16, K=64, N=32)
    wanted = a.double() @ b.double()
    assert (found - wanted).abs().max() < 1e-5 * wanted.abs().max()


@pytest.mark.parametrize("dtype", [torch.bfloat16, *FP8])
@pytest.mark.parametrize("kernel", [add_kernel, sum_kernel, compare_kernel])
def test_arithmetic_in_it_raises(kernel: object, dtype: torch.dtype) -> None:
    x = torch.ones(16).to(dtype)
    with pytest.raises(Exception, match="widen to float32 first"):
        kernel[(1,)](x, torch.zeros(16), N=16)


def test_the_error_has_its_own_class() -> None:
    assert issubclass(LowPrecisionArithmetic, TypeError)
