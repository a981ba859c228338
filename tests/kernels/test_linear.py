from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from kernels.linear import linear
from kernels.quantized_weight import QuantizedWeight
from tests.kernels.pools import relative


def quantized(
    shape: tuple[int, ...], type_name: str = "Q8_0"
) -> tuple[QuantizedWeight, np.ndarray]:
    """The weight, and its numbers as gguf decodes them."""
    kind = gguf.GGMLQuantizationType[type_name]
    numbers = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    data = gguf.quants.quantize(numbers, kind)
    decoded = gguf.quants.dequantize(data, kind)
    return QuantizedWeight(torch.from_numpy(data), type_name, shape), decoded


@pytest.mark.parametrize("has_bias", [False, True])
def test_matches_the_product_in_double(has_bias: bool) -> None:
    x, weight = torch.randn(3, 5, 33), torch.randn(17, 33)
    bias = torch.randn(17) if has_bias else None
    wanted = x.double() @ weight.double().T + (bias.double() if bias is not None else 0)
    assert relative(linear(x, weight, bias), wanted) < 1e-6


def test_result_has_the_dtype_of_x() -> None:
    x, weight = torch.randn(2, 8, dtype=torch.bfloat16), torch.randn(4, 8)
    assert linear(x, weight, torch.randn(4)).dtype == torch.bfloat16


def test_a_weight_in_blocks_is_the_weight_it_decodes_to() -> None:
    weight, numbers = quantized((7, 96), "Q4_1")
    x = torch.randn(3, 96)
    assert relative(linear(x, weight), x.double() @ torch.from_numpy(numbers).double().T) < 1e-6


def test_one_of_stacked_matrices() -> None:
    weight, numbers = quantized((3, 5, 64))
    assert weight[1].shape == (5, 64)
    assert np.array_equal(weight[1].dequantize().numpy(), numbers[1])
    assert np.array_equal(weight.dequantize().numpy(), numbers)


def test_named_rows_only() -> None:
    weight, numbers = quantized((9, 64))
    ids = torch.tensor([[8, 0], [3, 8]])
    assert np.array_equal(weight.rows(ids).numpy(), numbers[ids.numpy()])
