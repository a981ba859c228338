"""Runs the Triton tests, each kind in the process it needs: interpreted, and compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CACHE = ROOT / "build" / "triton"
"""Compiled kernels, kept between runs."""


@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="Triton has no wheel for this system")
@pytest.mark.parametrize(
    ("kind", "interpret", "tests"),
    [
        ("interpreted", "1", "not model"),
        ("compiled", "0", "not model"),
        pytest.param("compiled", "0", "model", marks=pytest.mark.model),
    ],
)
def test_session_passes(kind: str, interpret: str, tests: str) -> None:
    """Half a minute each where nothing else runs. Kernels of the rarer kinds are compiled where the
    real models are tried: it takes minutes.
    """
    settings = {
        "TRITON_INTERPRET": interpret,
        "TRITON_CACHE_DIR": str(CACHE),
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", tests]
    done = subprocess.run(
        [*command, str(Path(__file__).parent / kind)],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
