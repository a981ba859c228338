"""Norms and gathers of whole rows against their reference; the room they fill was full of NaN."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels import embedding, rms_norm
from kernels.dequantize import BLOCK_TYPES
from kernels.quantized_weight import QuantizedWeight
from kernels.triton.embedding import embed
from kernels.triton.rms_norm import norm_rows
from kernels.weight_planes import repack

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
TOLERANCE = {"f32": 1e-6, "bf16": 8e-3, "f16": 1e-3}


def close(found: Tensor, wanted: Tensor, kind: str) -> bool:
    largest = float(wanted.float().abs().max())
    return float((found.float() - wanted.float()).abs().max()) <= TOLERANCE[kind] * largest


def nan(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.full(shape, torch.nan, dtype=dtype)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("width", [48, 576, 1024])
def test_norm(kind: str, width: int) -> None:
    x = torch.randn(5, width + 16).to(DTYPES[kind])[:, :width]
    weight, residual = torch.randn(width).to(DTYPES[kind]), torch.randn(3, width).to(DTYPES[kind])
    rows = torch.tensor([4, 0, 4])
    for options in ({}, {"rows": rows}, {"rows": rows, "residual": residual}):
        wanted = rms_norm.norm_rows(x, weight, 1e-6, 1.0, **options)
        out = nan(*wanted.shape, dtype=x.dtype)
        assert norm_rows(x, weight, 1e-6, 1.0, **options, out=out) is out
        assert close(out, wanted, kind)
        assert torch.equal(norm_rows(x, weight, 1e-6, 1.0, **options), out)


def test_a_row_does_not_depend_on_others() -> None:
    x, weight = torch.randn(6, 80), torch.randn(80)
    alone = norm_rows(x[3:4], weight, 1e-6)
    x[[0, 1, 2, 4, 5]] = torch.nan
    assert torch.equal(norm_rows(x, weight, 1e-6)[3:4], alone)


def test_no_rows_are_no_launch() -> None:
    x = torch.randn(2, 16)
    assert norm_rows(x, torch.ones(16), 1e-6, rows=torch.empty(0, dtype=torch.int64)).shape == (
        0,
        16,
    )


def hidden(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Every second one as a chosen token, in descending order, among others beyond every table."""
    places = torch.arange(0, len(tokens), 2)
    chosen = torch.full((2 * len(tokens),), 2**40)
    chosen[-1 - places] = tokens[places]
    given = tokens.clone()
    given[places] = -len(chosen) + places
    return given, chosen


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 576**0.5])
def test_embedding(kind: str, scale: float) -> None:
    table = torch.randn(11, 72).to(torch.bfloat16)
    tokens = torch.tensor([10, 0, 3, 3])
    wanted = embedding.embed(tokens, table, scale, DTYPES[kind])
    for given, chosen in ((tokens, None), hidden(tokens)):
        out = nan(4, 72, dtype=DTYPES[kind])
        found = embed(given, table, scale, DTYPES[kind], out=out, chosen=chosen)
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K", "Q8_0", "IQ4_XS"])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_packed_embedding(name: str, scale: float) -> None:
    """Random bytes of blocks, scales that are no numbers apart."""
    made = torch.Generator().manual_seed(1)
    size = BLOCK_TYPES[name].size
    data = torch.randint(0, 256, (9, size), generator=made, dtype=torch.uint8)
    packed = QuantizedWeight(data.clamp(max=59), name, (9, BLOCK_TYPES[name].values))
    table, tokens = repack(packed), torch.tensor([8, 0, 3, 3, 5])
    wanted = embedding.embed(tokens, table, scale, torch.bfloat16)
    assert torch.isfinite(wanted.float()).all()
    for given, chosen in ((tokens, None), hidden(tokens)):
        out = nan(5, table.shape[1], dtype=torch.bfloat16)
        found = embed(given, table, scale, torch.bfloat16, out=out, chosen=chosen)
        assert torch.equal(found, wanted)
