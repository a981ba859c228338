"""How many kernels of ours a call launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest


def launches_of(run: Callable[[], object]) -> dict[str, int]:
    """By name; empty where there is no Triton, or plain torch ran."""
    try:
        from triton.runtime.jit import JITFunction
    except ImportError:
        return {}
    found: Counter[str] = Counter()
    real = JITFunction.run

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        found[self.__name__] += 1
        return real(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JITFunction, "run", counted)
        run()
    return dict(found)
