from __future__ import annotations

import torch

from kernels.rms_norm import rms_norm
from tests.kernels.pools import relative


def test_matches_torch_in_double() -> None:
    x, weight = torch.randn(3, 7, 96) * 50, torch.randn(96)
    wanted = torch.nn.functional.rms_norm(x.double(), (96,), weight.double(), 1e-6)
    assert relative(rms_norm(x, weight, 1e-6), wanted) < 1e-6


def test_offset_is_added_to_the_weight() -> None:
    x, weight = torch.randn(5, 64), torch.randn(64) * 0.1
    wanted = torch.nn.functional.rms_norm(x.double(), (64,), 1 + weight.double(), 1e-5)
    assert relative(rms_norm(x, weight, 1e-5, offset=1.0), wanted) < 1e-6


def test_is_computed_in_float32_and_returned_in_the_dtype_of_x() -> None:
    x = (torch.randn(4, 512) * 300).half()
    found = rms_norm(x, torch.ones(512).half(), 1e-6)
    assert found.dtype == torch.float16
    wanted = torch.nn.functional.rms_norm(x.double(), (512,), None, 1e-6)
    assert relative(found, wanted) < 1e-3


def test_a_row_of_zeros_stays_zero() -> None:
    assert not rms_norm(torch.zeros(2, 8), torch.ones(8), 1e-6).any()
