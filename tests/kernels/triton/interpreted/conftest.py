"""Kernels run by Triton's interpreter, made right for bf16 and fp8 and checked for bounds.

Only a session of its own can do that: Triton reads TRITON_INTERPRET when it is imported, and an
interpreted kernel can't be compiled in the same process. `test_interpreted_session.py` starts it;
by hand: TRITON_INTERPRET=1 pytest tests/kernels/triton/interpreted
"""

from __future__ import annotations

import os

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

collect_ignore_glob = [] if IS_INTERPRETED else ["test_*.py"]

if IS_INTERPRETED:
    from tests.kernels.triton import low_precision, patch_once
    from tests.kernels.triton.bounds import Bounds

    low_precision.install()
    patch_once.install()
    Bounds().install()
