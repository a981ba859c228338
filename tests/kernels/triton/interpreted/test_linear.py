"""A few rows through one projection against the reference in float64: every kind of weight."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.linear import Weight
from kernels.plane_format import PLANE_FORMATS
from kernels.triton import linear
from kernels.triton.linear import MOST_ROWS, LinearTile, can_run, fused_linear, room_bytes
from kernels.triton.work import Work, work_for
from kernels.weight_planes import PlaneWeight, empty_planes, repack
from tests.kernels.packed_weights import FILE_TYPES, TYPES, planes, quantized
from tests.kernels.pools import relative

SMALL = LinearTile(rows=64, columns=64)
DENSE = LinearTile(rows=64, columns=128)
N, K = 37, 256
EXACT = 3e-5
"""Codes are exact in the dot: what is left is float32, where a lifted code is 16 times larger."""
EPS = 1e-6
GIB = 2**30


def rows_of(tokens: int, k: int = K, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Part of a wider tensor."""
    return torch.randn(tokens, k + 16).to(dtype)[:, :k]


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.full(shape, torch.nan, dtype=dtype)


def numbers_of(weight: Weight) -> Tensor:
    return (weight if isinstance(weight, Tensor) else weight.dequantize()).double()


def normed(x: Tensor, norm: Tensor, offset: float = 0.0) -> Tensor:
    """float64, with what the dot takes rounded: x times the norm's weight."""
    rounded = (x.float() * (norm.float() + offset)).bfloat16()
    return rounded.double() * (x.double().square().mean(1, keepdim=True) + EPS).rsqrt()


def projected(x: Tensor, weight: Weight, **options: object) -> Tensor:
    """Into results filled with NaN, in float32."""
    out = poisoned(x.shape[0], weight.shape[-2])
    tile = SMALL if isinstance(weight, PlaneWeight) else DENSE
    given = fused_linear(x, weight, out=out, tile=tile, **options)  # type: ignore[arg-type]
    assert given is out
    return out


@pytest.mark.parametrize("type_name", TYPES)
def test_every_packed_type_is_exact(type_name: str) -> None:
    x, weight = rows_of(3), planes(type_name, N, K)
    assert relative(projected(x, weight), x.double() @ numbers_of(weight).T) < EXACT


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dense_weights_are_exact(dtype: torch.dtype) -> None:
    x, weight = rows_of(3, dtype=dtype), torch.randn(N, K + 8).to(dtype)[:, :K]
    assert relative(projected(x, weight), x.double() @ weight.double().T) < 1e-6


@pytest.mark.parametrize("type_name", ["Q4_0", "Q5_1", "Q8_0", "MXFP4", "I8", "F8_E4M3", "dense"])
@pytest.mark.parametrize("k", [32, 96, 224])
def test_columns_that_fill_no_tile(type_name: str, k: int) -> None:
    """What lies beyond the columns in x's memory is not a number."""
    wide = poisoned(2, 512, dtype=torch.bfloat16)
    wide[:, :k] = torch.randn(2, k)
    x = wide[:, :k]
    weight = torch.randn(5, k).bfloat16() if type_name == "dense" else planes(type_name, 5, k)
    assert relative(projected(x, weight), x.double() @ numbers_of(weight).T) < EXACT


@pytest.mark.parametrize("type_name", ["Q4_K", "Q6_K", "dense"])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_norm_bias_and_residual(type_name: str, offset: float) -> None:
    x, residual = rows_of(3), rows_of(3, N)
    weight = torch.randn(N, K).bfloat16() if type_name == "dense" else planes(type_name, N, K)
    norm, bias = torch.randn(K).bfloat16(), torch.randn(N).bfloat16()
    found = projected(
        x, weight, bias=bias, norm=norm, norm_offset=offset, eps=EPS, residual=residual
    )
    wanted = normed(x, norm, offset) @ numbers_of(weight).T + bias.double() + residual.double()
    assert relative(found, wanted) < EXACT


def test_results_may_take_the_place_of_the_residual() -> None:
    x, weight = rows_of(3), planes("Q4_K", N, K)
    held = torch.randn(3, N + 3).bfloat16()
    wanted = projected(x, weight, residual=held[:, :N])
    out = fused_linear(x, weight, residual=held[:, :N], out=held[:, :N], tile=SMALL)
    assert torch.equal(out, wanted.bfloat16())


@pytest.mark.parametrize("type_name", ["Q4_K", "Q8_0", "dense"])
def test_a_row_depends_on_no_other(type_name: str) -> None:
    """Nor on how many there are: more than 8 are two programs' work."""
    x = rows_of(13)
    weight = torch.randn(N, K).bfloat16() if type_name == "dense" else planes(type_name, N, K)
    options = {"norm": torch.randn(K).bfloat16(), "eps": EPS}
    together = projected(x, weight, **options)
    for part in (slice(5, 6), slice(4, 13)):
        assert torch.equal(projected(x[part], weight, **options), together[part])
    spoiled = x.clone()
    spoiled[3] = torch.nan
    found = projected(spoiled, weight, **options)
    assert found[3].isnan().all()
    others = torch.arange(13) != 3
    assert torch.equal(found[others], together[others])


def test_up_to_16_rows() -> None:
    x, weight, residual = rows_of(13), planes("Q4_K", N, K), rows_of(13, N)
    found = projected(x, weight, residual=residual)
    assert relative(found, x.double() @ numbers_of(weight).T + residual.double()) < EXACT


@pytest.mark.parametrize("type_name", ["Q4_K", "dense"])
def test_shares_of_the_columns_are_joined(type_name: str) -> None:
    """The room is used again, and holds what is not a number at first."""
    x, k = rows_of(2, 1024), 1024
    weight = torch.randn(N, k).bfloat16() if type_name == "dense" else planes(type_name, N, k)
    norm = torch.randn(k).bfloat16()
    work = work_for(room_bytes(), x.device)
    work.room.view(torch.float32).fill_(torch.nan)
    found = [projected(x, weight, norm=norm, eps=EPS, work=work) for _ in range(2)]
    assert work.room.view(torch.float32).isfinite().any()
    assert not work.arrived.any()
    assert torch.equal(found[0], found[1])
    assert relative(found[0], normed(x, norm) @ numbers_of(weight).T) < EXACT


@pytest.mark.parametrize(("type_name", "k"), [("Q4_K", 512), ("dense", 1024)])
def test_each_row_through_its_expert(type_name: str, k: int) -> None:
    """Shares of the columns too, which may not depend on the number of rows."""
    x, experts = rows_of(2, k), torch.tensor([3, 0, 3, 2])
    if type_name == "dense":
        weight: Weight = torch.randn(4, N, k).bfloat16()
    else:
        weight = repack(quantized(type_name, (4, N, k)))
    residual = rows_of(4, N)
    out = poisoned(4, N)
    fused_linear(x, weight, residual=residual, experts=experts, out=out)
    matrices = numbers_of(weight)
    wanted = [x[i // 2].double() @ matrices[expert].T for i, expert in enumerate(experts)]
    assert relative(out, torch.stack(wanted) + residual.double()) < EXACT
    alone = poisoned(1, N)
    fused_linear(x[1:], weight, residual=residual[2:3], experts=experts[2:3], out=alone)
    assert torch.equal(alone, out[2:3])


def test_experts_beyond_the_room_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, experts = rows_of(3, 1024), torch.tensor([3, 0, 3, 2, 1, 1])
    weight, residual = torch.randn(4, N, 1024).bfloat16(), rows_of(6, N)
    given = {"residual": residual, "experts": experts}
    whole = fused_linear(x, weight, **given, out=poisoned(6, N))
    monkeypatch.setattr(linear, "MOST_SHARED_ROWS", 5)
    assert torch.equal(fused_linear(x, weight, **given, out=poisoned(6, N)), whole)


def test_offsets_beyond_32_bits() -> None:
    """The last matrix of a stack of 5 GiB, whose other pages are never touched."""
    x, experts = rows_of(1, 256), torch.tensor([0])
    near = planes("Q4_K", N, 256)
    matrix = empty_planes("Q4_K", (N, 256), x.device).data.numel()
    count = 5 * GIB // (4 * matrix)
    stack = torch.empty(count, matrix, dtype=torch.int32)
    stack[-1] = near.data
    far = PlaneWeight(stack, "Q4_K", (count, N, 256))
    found = fused_linear(x, far, experts=experts + count - 1, out=poisoned(1, N), tile=SMALL)
    assert torch.equal(found, projected(x, near))


def test_rows_of_a_dense_weight_far_apart() -> None:
    x, step = rows_of(1, 128), 2**27
    far = torch.empty(20 * step, dtype=torch.bfloat16).as_strided((20, 128), (step, 1))
    far.copy_(torch.randn(20, 128))
    assert torch.equal(projected(x, far), projected(x, far.clone()))


def test_no_rows() -> None:
    assert fused_linear(rows_of(0), planes("Q4_K", N, K)).shape == (0, N)


def test_what_has_no_kernel_says_why() -> None:
    x, weight = rows_of(2), planes("Q4_K", N, K)
    assert can_run(x, weight) is None
    assert can_run(x, torch.zeros(N, K, dtype=torch.bfloat16)) is None
    reasons = {
        "17 rows are more than 16": can_run(rows_of(MOST_ROWS + 1), weight),
        "do not begin at multiples": can_run(torch.zeros(2, K + 1, dtype=x.dtype)[:, 1:], weight),
        "could overflow": can_run(x.half(), weight, norm=torch.ones(K)),
        "rows of bfloat16, not": can_run(x.float(), weight),
        "the weight torch.float32": can_run(x, torch.zeros(N, K)),
        "is not repacked": can_run(x, quantized("Q4_K", (N, K))),
        "rows of the weight": can_run(x, torch.zeros(N, K + 1, dtype=x.dtype)[:, :K]),
    }
    assert all(part in str(reason) for part, reason in reasons.items())
    assert can_run(rows_of(17), weight, experts=torch.zeros(34, dtype=torch.int64)) is None


def test_room_that_is_too_small_is_named() -> None:
    work = Work(torch.empty(1000, dtype=torch.uint8), torch.zeros(8, dtype=torch.int32))
    assert [one.shape for one in work.take((torch.float32, (2, 5)), (torch.int8, (3,)))] == [
        (2, 5),
        (3,),
    ]
    with pytest.raises(ValueError, match="1,256 bytes of room are needed, not 1,000"):
        work.take((torch.float32, (2, 5)), (torch.int8, (1000,)))


def test_types_of_files_are_all_tried() -> None:
    assert set(TYPES) == set(PLANE_FORMATS) == {*FILE_TYPES, "I8", "F8_E4M3"}
