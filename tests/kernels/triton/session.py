"""Runs the tests of a folder beside this file in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CACHE = ROOT / "build" / "triton"
"""Compiled kernels, kept between runs."""

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="Triton has no wheel for this system"),
]
"""Of every test that runs a session."""


def run_session(folder: str, interpret: bool, tests: str) -> None:
    """`tests`: an expression of marks. Triton reads its settings when it is imported."""
    settings = {
        "TRITON_INTERPRET": "1" if interpret else "0",
        "TRITON_CACHE_DIR": str(CACHE),
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", tests]
    done = subprocess.run(
        [*command, str(Path(__file__).parent / folder)],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
