"""Kernels interpreted on the CPU, in a process of their own."""

from __future__ import annotations

from tests.kernels.triton import session

pytestmark = session.pytestmark


def test_session_passes() -> None:
    """Two thirds of a minute."""
    session.run_session("interpreted", interpret=True, tests="not model")
