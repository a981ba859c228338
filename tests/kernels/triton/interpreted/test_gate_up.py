"""A few rows through gate and up against the reference in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.gate_up import Activation, activate
from kernels.linear import Weight
from kernels.triton.gate_up import can_run, gate_up
from kernels.triton.linear import LinearTile
from kernels.weight_planes import repack
from tests.kernels.packed_weights import planes, quantized
from tests.kernels.pools import relative
from tests.kernels.triton.interpreted.test_linear import (
    EPS,
    EXACT,
    normed,
    numbers_of,
    poisoned,
    rows_of,
)

N, K = 37, 256
SMALL = LinearTile(rows=64, columns=64)


def scaled(type_name: str) -> Weight:
    """So that the gate's results are of the size of one."""
    if type_name == "dense":
        return (torch.randn(N, K) / 16).bfloat16()
    return planes(type_name, N, K)


def reference(x: Tensor, gate: Weight, up: Weight, activation: Activation) -> Tensor:
    wide = x.double()
    opened = wide @ numbers_of(gate).T
    return activate(opened, activation) * (wide @ numbers_of(up).T)


@pytest.mark.parametrize(
    "type_name", ["Q4_0", "Q8_0", "Q2_K", "Q5_K", "Q6_K", "IQ4_XS", "I8", "dense"]
)
def test_every_kind_of_weight(type_name: str) -> None:
    x, gate, up = rows_of(3, K) / 16, scaled(type_name), scaled(type_name)
    out = poisoned(3, N)
    assert gate_up(x, gate, up, "silu", out=out, tile=SMALL) is out
    assert relative(out, reference(x, gate, up, "silu")) < 3 * EXACT


@pytest.mark.parametrize("type_name", ["Q4_K", "dense"])
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_norm_and_shares(type_name: str, activation: Activation) -> None:
    k = 512
    x, norm = rows_of(2, k), torch.randn(k).bfloat16() / 16
    if type_name == "dense":
        gate, up = ((torch.randn(N, k) / 16).bfloat16() for _ in range(2))
    else:
        gate, up = (planes(type_name, N, k) for _ in range(2))
    out = poisoned(2, N)
    gate_up(x, gate, up, activation, norm=norm, norm_offset=0.01, eps=EPS, out=out, tile=SMALL)
    assert relative(out, reference(normed(x, norm, 0.01), gate, up, activation)) < 3 * EXACT


@pytest.mark.parametrize("type_name", ["MXFP4"])
def test_each_row_through_its_expert(type_name: str) -> None:
    x, experts = rows_of(2, K) / 16, torch.tensor([1, 2, 0, 2])
    gate, up = (repack(quantized(type_name, (3, N, K))) for _ in range(2))
    out = poisoned(4, N)
    gate_up(x, gate, up, "silu", experts=experts, out=out, tile=SMALL)
    wanted = [
        reference(x[i // 2], gate[expert], up[expert], "silu")
        for i, expert in enumerate(experts.tolist())
    ]
    assert relative(out, torch.stack(wanted)) < 3 * EXACT


def test_what_has_no_kernel_says_why() -> None:
    x, gate = rows_of(2, K), planes("Q4_K", N, K)
    dense = torch.zeros(N, K, dtype=torch.bfloat16)
    assert can_run(x, gate, gate) is None
    assert can_run(x, dense, dense) is None
    assert "gate is Q4_K and up Q6_K" in str(can_run(x, gate, planes("Q6_K", N, K)))
    assert "only one" in str(can_run(x, gate, dense))
    wider = torch.zeros(N, K + 8, dtype=torch.bfloat16)[:, :K]
    assert "differently" in str(can_run(x, dense, wider))
    assert "17 rows" in str(can_run(rows_of(17, K), gate, gate))
