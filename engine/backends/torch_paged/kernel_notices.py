"""In a person's words: what runs in plain torch although a kernel was looked for."""

from __future__ import annotations

from collections.abc import Mapping

_OPS = {
    "embedding": "the embedding",
    "norm": "norms",
    "linear": "a projection",
    "gate_up": "the feed-forward network",
    "store": "storing keys and values",
    "attention": "attention",
    "candidates": "the choice of the likeliest tokens",
}


def kernel_notices(missing: Mapping[str, str]) -> tuple[str, ...]:
    """`missing`: op -> why."""
    return tuple(
        f"No kernel runs {_OPS[op]} of this model ({reason}): PyTorch does, more slowly."
        for op, reason in missing.items()
    )
