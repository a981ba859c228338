"""Packed weights as matrices, bit for bit, and many rows through them."""

from __future__ import annotations

import pytest
import torch

from kernels import fused_linear as reference
from kernels import gate_up as gated_reference
from kernels.gate_up import Activation
from kernels.linear import Weight
from kernels.triton import matrix_linear
from kernels.triton.matrix_linear import can_run, room_bytes
from kernels.triton.plane_matrix import plane_matrix
from kernels.triton.work import work_for
from tests.kernels.packed_weights import TYPES, planes, quantized
from tests.kernels.pools import relative
from tests.kernels.triton.interpreted.test_linear import poisoned, rows_of

N, K = 37, 256
BF16_ERROR = 6e-3
"""Of a weight and a product, both rounded."""


@pytest.mark.parametrize("type_name", TYPES)
def test_a_matrix_is_what_the_planes_decode_to(type_name: str) -> None:
    weight = planes(type_name, 71, K)
    held = poisoned(71, K + 8, dtype=torch.bfloat16)
    found = plane_matrix(weight, held[:, :K])
    assert torch.equal(found, weight.dequantize().to(torch.bfloat16))
    assert held[:, K:].isnan().all()


@pytest.mark.parametrize("type_name", ["Q4_0", "Q5_1", "I8"])
@pytest.mark.parametrize("k", [32, 96])
def test_columns_that_fill_no_tile(type_name: str, k: int) -> None:
    weight = planes(type_name, 5, k)
    out = poisoned(5, k, dtype=torch.bfloat16)
    assert torch.equal(plane_matrix(weight, out), weight.dequantize().to(torch.bfloat16))


def weight_of(type_name: str) -> Weight:
    if type_name == "dense":
        return (torch.randn(N, K) / 16).bfloat16()
    return planes(type_name, N, K)


@pytest.mark.parametrize("type_name", ["Q4_K", "dense"])
def test_many_rows(type_name: str) -> None:
    x, weight, residual = rows_of(33, K), weight_of(type_name), rows_of(33, N)
    norm, bias = torch.randn(K).bfloat16(), torch.randn(N).bfloat16()
    work = work_for(room_bytes(33, N, K, False, type_name != "dense"), x.device)
    work.room.view(torch.bfloat16).fill_(torch.nan)
    for options in ({}, {"norm": norm, "norm_offset": 0.5, "eps": 1e-5, "residual": residual}):
        out = poisoned(33, N, dtype=torch.bfloat16)
        matrix_linear.fused_linear(x, weight, bias, out=out, work=work, **options)  # type: ignore[arg-type]
        wanted = reference.fused_linear(x.float(), weight, bias, **options)  # type: ignore[arg-type]
        assert relative(out, wanted) < BF16_ERROR


@pytest.mark.parametrize("type_name", ["Q4_K", "dense"])
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_many_rows_through_gate_and_up(type_name: str, activation: Activation) -> None:
    x, gate, up = rows_of(33, K), weight_of(type_name), weight_of(type_name)
    norm = torch.randn(K).bfloat16() / 16
    work = work_for(room_bytes(33, N, K, True, type_name != "dense"), x.device)
    out = poisoned(33, N, dtype=torch.bfloat16)
    matrix_linear.gate_up(x, gate, up, activation, norm=norm, eps=1e-5, out=out, work=work)
    wanted = gated_reference.gate_up(x.float(), gate, up, activation, norm=norm, eps=1e-5)
    assert relative(out, wanted) < 2 * BF16_ERROR


def test_what_has_no_product_says_why() -> None:
    x, weight = rows_of(33, K), planes("Q4_K", N, K)
    assert can_run(x, weight, weight.dequantize().bfloat16()) is None
    assert "common matrix" in str(can_run(x, weight, experts=torch.zeros(33)))
    assert "rows of torch.float32" in str(can_run(x.float(), weight))
    assert "results in torch.float32" in str(can_run(x, weight, out=torch.zeros(33, N)))
    assert "the weight torch.float32" in str(can_run(x, weight.dequantize()))
    assert "not repacked" in str(can_run(x, quantized("Q4_K", (N, K))))
