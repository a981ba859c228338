"""Laws of the quantized formats: how far a number may move, and which codes never occur."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from kernels.kv_codes import (
    Codes,
    dequantize,
    dequantize_groups,
    dequantize_range,
    pack_halves,
    quantize,
    quantize_groups,
    quantize_range,
    unpack_halves,
)


def rows(size: int = 96) -> Tensor:
    """Ordinary rows, one of outliers, one of zeros, tiny, huge, constant, one-sided."""
    made = torch.randn(12, size)
    made[1, 3] = 1e4
    made[2] = 0
    made[3] *= 1e-4
    made[4] *= 1e5
    made[5] = 3.7
    made[6] = made[6].abs() + 100
    made[7] = -made[7].abs()
    return made


def scale_of(codes: Codes) -> Tensor:
    assert codes.scale is not None
    assert codes.scale.dtype == torch.float16
    return codes.scale


def test_int8_moves_a_number_by_about_half_a_step() -> None:
    x = rows()
    codes = quantize(x, "int8")
    scale = scale_of(codes)
    # Half a step, and what the rounding of the scale to fp16 may cut off at the top: 127 / 2048.
    limit = 0.563 * scale.float()
    assert ((dequantize(codes.values, scale) - x).abs() <= limit).all()


def test_int8_uses_codes_up_to_127_and_never_minus_128() -> None:
    codes = quantize(torch.cat((rows(), -rows())), "int8").values
    assert codes.min() == -127
    assert codes.max() == 127


def test_fp8_moves_a_number_by_a_sixteenth_at_most() -> None:
    x = rows()
    codes = quantize(x, "fp8")
    scale = scale_of(codes)
    smallest_step = scale.float() * 2**-9
    limit = torch.maximum(x.abs() / 16, smallest_step / 2)
    assert ((dequantize(codes.values, scale) - x).abs() <= limit * 1.001).all()


@pytest.mark.parametrize("size", [64, 128])
def test_fp8_is_never_worse_than_with_the_largest_number_at_the_top(size: int) -> None:
    x = torch.randn(200, size)
    codes = quantize(x, "fp8")
    found = dequantize(codes.values, scale_of(codes))
    scale = (x.abs().amax(1, keepdim=True) / 448).half().float()
    plain = (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale
    error, plain_error = ((one - x).square().sum(1) for one in (found, plain))
    assert (error <= plain_error * 1.001).all()
    assert error.sum() < 0.9 * plain_error.sum()


@pytest.mark.parametrize("size", [192, 256])
@pytest.mark.parametrize("kind", ["int8", "fp8", "range"])
def test_parts_of_wide_heads_are_quantized_as_heads(kind: str, size: int) -> None:
    x = torch.randn(50, size)
    x[:, 128:] *= 1000
    quantized = quantize_range if kind == "range" else partial(quantize, kind=kind)
    whole, parts = quantized(x), [quantized(part) for part in x.split(64, 1)]
    assert torch.equal(whole.values.float(), torch.cat([one.values for one in parts], 1).float())
    assert torch.equal(scale_of(whole), torch.cat([scale_of(one) for one in parts], 1))
    if whole.zero is not None:
        zeros = [one.zero for one in parts if one.zero is not None]
        assert torch.equal(whole.zero, torch.cat(zeros, 1))
        found = dequantize_range(whole.values, scale_of(whole), whole.zero)
    else:
        found = dequantize(whole.values, scale_of(whole))
    assert (found - x)[:, :128].abs().max() < 0.5


@pytest.mark.parametrize("size", [1e-30, 1e-5, 1.0, 1e6, 1e30])
@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_numbers_of_any_size_give_finite_numbers(kind: str, size: float) -> None:
    x = torch.randn(4, 64) * size
    codes = quantize(x, kind)
    assert dequantize(codes.values, scale_of(codes)).isfinite().all()


def test_fp8_never_uses_the_codes_of_nan() -> None:
    x = torch.cat((rows(), -rows(), rows() * 1e30))
    assert not (quantize(x, "fp8").values.view(torch.uint8) & 0x7F == 0x7F).any()


def test_groups_of_32_dims_move_a_number_by_a_step_at_most() -> None:
    """Half a step, but for numbers on the other side than the farthest: code 16 does not exist."""
    for size in (64, 80, 96):
        x = rows(size)
        codes = quantize_groups(x)
        scale = scale_of(codes)
        assert scale.shape == (12, -(-size // 32))
        step = scale.float().repeat_interleave(32, 1)[:, :size]
        cut_off = x * step.sign() > 7.5 * step.abs()
        limit = torch.where(cut_off, 1.01, 0.51) * step.abs()
        assert ((dequantize_groups(codes.values, scale) - x).abs() <= limit).all()
        assert codes.values.min() == 0
        assert codes.values.max() == 15


def test_groups_are_those_of_q4_0() -> None:
    """The gguf package's own codes and scales, which it packs as here: n low, n + 16 high."""
    import gguf

    x = torch.randn(40, 32)
    codes = quantize_groups(x)
    kind = gguf.GGMLQuantizationType.Q4_0
    wanted = gguf.quants.dequantize(gguf.quants.quantize(x.numpy(), kind), kind)
    found = dequantize_groups(codes.values, scale_of(codes))
    # It divides by the scale before that is rounded to fp16: a number between two codes may differ.
    assert (found - torch.from_numpy(wanted)).abs().count_nonzero() < 0.02 * x.numel()


def test_groups_of_numbers_of_any_size_are_finite() -> None:
    for size in (1e-30, 1e-6, 1e6, 1e30):
        codes = quantize_groups(torch.randn(4, 64) * size)
        assert codes.values.max() <= 15
        assert dequantize_groups(codes.values, scale_of(codes)).isfinite().all()


def test_an_outlier_spoils_its_own_group_only() -> None:
    x = rows()
    found = quantize_groups(x)
    error = (dequantize_groups(found.values, scale_of(found)) - x)[1].abs()
    assert error[:32].max() > 1
    assert error[32:].max() < 0.5


def test_a_range_moves_a_number_inside_by_about_half_a_step() -> None:
    x = rows().clamp(-6e4, 6e4)
    codes = quantize_range(x)
    scale = scale_of(codes).float()
    assert codes.zero is not None
    assert codes.zero.dtype == torch.float16
    least = codes.zero.float()
    largest = least + 15 * scale
    # What lies outside is cut off at the range's end.
    outside = torch.maximum(least - x, x - largest)
    found = dequantize_range(codes.values, scale_of(codes), codes.zero)
    assert ((found - x).abs() <= torch.maximum(0.51 * scale, outside)).all()
    width = x.amax(1, keepdim=True) - x.amin(1, keepdim=True)
    assert (outside <= 0.076 * width + x.abs() * 2**-10).all()
    assert codes.values.min() == 0
    assert codes.values.max() == 15


@pytest.mark.parametrize("size", [64, 128, 256])
def test_a_range_is_never_worse_than_from_the_least_to_the_largest(size: int) -> None:
    x = torch.randn(200, size)
    codes = quantize_range(x)
    assert codes.zero is not None
    found = dequantize_range(codes.values, scale_of(codes), codes.zero)
    least, largest = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    step = (largest - least) / 15
    plain = ((x - least) / step).round() * step + least
    error, plain_error = ((one - x).square().sum(1) for one in (found, plain))
    assert (error <= plain_error * 1.02).all()
    assert error.sum() < 0.94 * plain_error.sum()


@pytest.mark.parametrize("value", [0.0, -0.0])
def test_a_row_of_zeros_comes_back_as_zeros(value: float) -> None:
    x = torch.full((2, 64), value)
    for kind in ("int8", "fp8"):
        codes = quantize(x, kind)
        assert not dequantize(codes.values, scale_of(codes)).any()
    codes = quantize_groups(x)
    assert not dequantize_groups(codes.values, scale_of(codes)).any()
    codes = quantize_range(x)
    assert codes.zero is not None
    assert not dequantize_range(codes.values, scale_of(codes), codes.zero).any()


def test_the_scale_is_rounded_before_it_is_divided_by() -> None:
    """A scale that fp16 can't hold: codes that belong to the rounded one."""
    x = torch.tensor([[127 * 1.0004, 60.4]])
    codes = quantize(x, "int8")
    scale = scale_of(codes)
    assert float(scale[0]) == 1.0
    assert codes.values.tolist() == [[127, 60]]


def test_packing_halves_is_undone() -> None:
    codes = torch.randint(0, 16, (3, 5, 80), dtype=torch.uint8)
    for span in (16, 80):
        packed = pack_halves(codes, span)
        assert packed.shape == (3, 5, 40)
        assert torch.equal(unpack_halves(packed, span), codes)
        half = span // 2
        assert torch.equal(packed[..., :half] & 0xF, codes[..., :half])
        assert torch.equal(packed[..., :half] >> 4, codes[..., half:span])


def test_of_two_numbers_equally_far_the_positive_becomes_code_0() -> None:
    x = torch.zeros(2, 32)
    x[0, 3], x[0, 9], x[1, 3], x[1, 9] = -2, 2, 2, -2
    codes = quantize_groups(x)
    assert scale_of(codes).tolist() == [[-0.25], [-0.25]]
    assert codes.values[0, [3, 9]].tolist() == [15, 0]
    assert codes.values[1, [3, 9]].tolist() == [0, 15]
