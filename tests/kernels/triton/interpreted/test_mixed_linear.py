"""A few rows through a weight whose upper and lower rows are packed as different types."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.fused_linear import fused_linear as reference
from kernels.mixed_planes import MixedPlanes
from kernels.triton.linear import LinearTile, can_run, fused_linear, room_bytes
from kernels.triton.matrix_linear import fused_linear as many_rows
from kernels.triton.work import work_for
from tests.kernels.packed_weights import planes
from tests.kernels.pools import relative

SMALL = LinearTile(rows=64, columns=64)
UPPER, LOWER, K = 70, 37, 256
"""The upper rows end within a tile, the lower ones begin a new one."""
EXACT = 3e-5


def mixed(upper: str, lower: str, k: int = K) -> MixedPlanes:
    return MixedPlanes(planes(upper, UPPER, k), planes(lower, LOWER, k))


def rows_of(tokens: int, n: int = K) -> Tensor:
    return torch.randn(tokens, n).bfloat16()


def poisoned(tokens: int) -> Tensor:
    return torch.full((tokens, UPPER + LOWER), torch.nan)


@pytest.mark.parametrize("types", [("Q4_K", "Q6_K"), ("IQ4_NL", "Q8_0")])
def test_each_part_is_as_if_it_were_alone(types: tuple[str, str]) -> None:
    """For more rows than a program takes, with everything that stands around a projection."""
    x, weight = rows_of(9), mixed(*types)
    bias, residual = torch.randn(UPPER + LOWER).bfloat16(), rows_of(9, UPPER + LOWER)
    norm = {"norm": torch.randn(K).bfloat16(), "eps": 1e-6}
    found = fused_linear(x, weight, bias, residual=residual, out=poisoned(9), tile=SMALL, **norm)  # type: ignore[arg-type]
    start = 0
    for part in weight.parts:
        here = slice(start, start + part.shape[0])
        out = torch.empty(9, part.shape[0])
        alone = fused_linear(
            x, part, bias[here], residual=residual[:, here], out=out, tile=SMALL, **norm
        )  # type: ignore[arg-type]
        assert torch.equal(found[:, here], alone)
        start = here.stop


def test_numbers_are_those_of_both_parts() -> None:
    x, weight = rows_of(3), mixed("Q4_K", "Q6_K")
    numbers = torch.cat([one.dequantize() for one in weight.parts]).double()
    found = fused_linear(x, weight, out=poisoned(3), tile=SMALL)
    assert relative(found, x.double() @ numbers.T) < EXACT
    assert relative(reference(x.double(), weight), x.double() @ numbers.T) < EXACT


def test_shares_of_the_columns_are_joined() -> None:
    x, weight = rows_of(2, 1024), mixed("Q4_K", "Q6_K", 1024)
    work = work_for(room_bytes(), x.device)
    work.room.view(torch.float32).fill_(torch.nan)
    found = fused_linear(x, weight, out=poisoned(2), work=work)
    assert work.room.view(torch.float32).isfinite().any()
    assert not work.arrived.any()
    assert relative(found, x.double() @ weight.dequantize().double().T) < EXACT


def test_many_rows_decode_one_part_after_the_other() -> None:
    x, weight = rows_of(20), mixed("Q4_K", "Q6_K")
    bias, residual = torch.randn(UPPER + LOWER).bfloat16(), rows_of(20, UPPER + LOWER)
    found = many_rows(x, weight, bias, residual=residual)
    wanted = x.double() @ weight.dequantize().double().T + bias.double() + residual.double()
    assert relative(found, wanted) < 1e-2


def test_what_a_part_lacks_the_whole_lacks() -> None:
    weight = mixed("Q4_K", "Q6_K")
    assert can_run(rows_of(2), weight) is None
    assert "bfloat16" in str(can_run(rows_of(2).half(), weight))
