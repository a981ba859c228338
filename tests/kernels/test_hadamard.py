"""The rotation against the matrix it stands for."""

from __future__ import annotations

import pytest
import torch

from kernels.hadamard import hadamard

SIZES = {64: 64, 80: 16, 96: 32, 128: 128, 256: 256, 72: 8, 7: 1}
"""Head size -> size of the matrix."""


def sylvester(size: int) -> torch.Tensor:
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < size:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64), matrix)
    return matrix / size**0.5


@pytest.mark.parametrize(("size", "power"), SIZES.items())
def test_is_the_block_diagonal_sylvester_matrix(size: int, power: int) -> None:
    matrix = torch.block_diag(*[sylvester(power)] * (size // power))
    torch.testing.assert_close(hadamard(torch.eye(size)).double(), matrix, rtol=0, atol=1e-6)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(size).double())


@pytest.mark.parametrize("size", SIZES)
def test_undoes_itself_and_keeps_products(size: int) -> None:
    x, y = torch.randn(3, 5, size), torch.randn(3, 5, size)
    torch.testing.assert_close(hadamard(hadamard(x)), x, rtol=1e-5, atol=1e-5)
    kept = (hadamard(x) * hadamard(y)).sum(-1)
    torch.testing.assert_close(kept, (x * y).sum(-1), rtol=1e-4, atol=1e-4)


def test_spreads_an_outlier_over_all_dims() -> None:
    x = torch.zeros(128)
    x[37] = 100
    torch.testing.assert_close(hadamard(x).abs(), torch.full((128,), 100 / 128**0.5))


def test_keeps_shape_and_dtype() -> None:
    x = torch.randn(2, 0, 3, 64, dtype=torch.bfloat16)
    assert hadamard(x).shape == x.shape
    assert hadamard(x).dtype == torch.bfloat16
