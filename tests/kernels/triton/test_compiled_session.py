"""Kernels as they are compiled for devices, in a process of their own. Those of the rarer kinds are
compiled where the real models are tried: it takes minutes.
"""

from __future__ import annotations

import pytest

from tests.kernels.triton import session

pytestmark = session.pytestmark


@pytest.mark.parametrize("tests", ["not model", pytest.param("model", marks=pytest.mark.model)])
def test_session_passes(tests: str) -> None:
    """A minute where nothing was compiled before."""
    session.run_session("compiled", interpret=False, tests=tests)
