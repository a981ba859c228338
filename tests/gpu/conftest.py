"""The device that tests with the marker `gpu` run on."""

from __future__ import annotations

import pytest
import torch

from tests.bench.gpu.rig import Rig


@pytest.fixture(scope="session")
def rig() -> Rig:
    if not torch.cuda.is_available():
        pytest.fail("there is no CUDA device")
    return Rig(torch.device("cuda"))
