"""Kernels compiled for each architecture. Interpreted kernels can't be: a session of its own.

`test_compiled_session.py` starts it; by hand:
TRITON_INTERPRET=0 pytest tests/kernels/triton/compiled
"""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "0" else ["test_*.py"]
