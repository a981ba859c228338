"""Planes of 8-bit codes decode to the numbers they were made from."""

from __future__ import annotations

import pytest
import torch

from kernels.eight_bit_planes import fp8_planes, int8_planes
from models.loaders.scaled_matrix import apply_scale
from tests.kernels.pools import relative


def every_fp8(rows: int, columns: int) -> torch.Tensor:
    """All codes but those that are not numbers."""
    codes = torch.randint(0, 254, (rows, columns), dtype=torch.uint8)
    codes = codes + (codes >= 127).to(torch.uint8)
    return codes.view(torch.float8_e4m3fn)


@pytest.mark.parametrize("kind", ["whole", "rows", "columns of one", "blocks"])
@pytest.mark.parametrize("shape", [(5, 96), (131, 416)])
def test_8_bit_floats_are_kept_with_any_scale(kind: str, shape: tuple[int, int]) -> None:
    rows, columns = shape
    matrix, block = every_fp8(rows, columns), None
    scales = {
        "whole": torch.tensor(0.37),
        "rows": torch.rand(rows),
        "columns of one": torch.rand(rows, 1),
        "blocks": torch.rand(-(-rows // 128), -(-columns // 128)),
    }
    if kind == "blocks":
        block = (128, 128)
    planes = fp8_planes(matrix, scales[kind], block)
    assert torch.equal(planes.dequantize(), apply_scale(matrix, scales[kind], block))


def test_blocks_of_more_columns_and_other_rows() -> None:
    matrix, scale = every_fp8(70, 512), torch.rand(3, 2)
    found = fp8_planes(matrix, scale, (32, 256)).dequantize()
    assert torch.equal(found, apply_scale(matrix, scale, (32, 256)))


def test_what_planes_cannot_hold_is_refused() -> None:
    matrix = every_fp8(4, 128)
    with pytest.raises(ValueError, match="64 columns"):
        fp8_planes(matrix, torch.rand(1, 2), (128, 64))
    matrix.view(torch.uint8)[1, 5] = 0xFF
    with pytest.raises(ValueError, match="not a number"):
        fp8_planes(matrix, torch.tensor(1.0), None)


@pytest.mark.parametrize("columns", [32, 160, 384])
def test_integers_round_to_half_a_step(columns: int) -> None:
    matrix = torch.randn(7, columns)
    matrix[2] = 0
    found = int8_planes(matrix).dequantize()
    assert not found[2].any()
    assert relative(found, matrix) < 0.01
    for start in range(0, columns, 128):
        part = slice(start, start + 128)
        step = matrix[:, part].abs().amax(1, keepdim=True) / 127
        assert ((found[:, part] - matrix[:, part]).abs() <= 0.501 * step).all()
