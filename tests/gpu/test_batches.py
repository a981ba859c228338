"""On a device; see `cases.py`."""

from __future__ import annotations

import pytest

from tests.bench.gpu.rig import Rig
from tests.gpu.cases import GROUPS

CASES = GROUPS["batches"]()


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_on_the_device(rig: Rig, name: str) -> None:
    CASES[name](rig)
