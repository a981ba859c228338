"""What a plan predicts is what is taken."""

from __future__ import annotations

import pytest

from tests.bench.gpu.rig import Rig
from tests.bench.gpu.shapes import SHAPES
from tests.gpu.pass_checks import memory


@pytest.mark.gpu
def test_memory_is_as_predicted(rig: Rig) -> None:
    found = memory(rig, SHAPES["0.6B"], 32_768)
    assert abs(found["ratio"] - 1) <= 0.03, found
