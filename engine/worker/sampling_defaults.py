"""The sampling that a model file recommends, over our own defaults. Knows no request."""

from __future__ import annotations

import math
from dataclasses import replace

from engine.request import Sampling
from models.loaders.gguf import read_gguf
from models.model_description import ModelDescription

_KEYS = {
    "general.sampling.temp": "temperature",
    "general.sampling.top_k": "top_k",
    "general.sampling.top_p": "top_p",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repeat_penalty",
    "general.sampling.penalty_last_n": "repeat_last_n",
}
_INTEGERS = frozenset({"top_k", "repeat_last_n"})


def sampling_defaults(description: ModelDescription) -> Sampling:
    """A value that is no finite, non-negative number is left out: the file is not trusted."""
    metadata = read_gguf(description.path).metadata
    found: dict[str, float | int] = {}
    for key, name in _KEYS.items():
        value = metadata.get(key)
        if isinstance(value, (int, float)) and math.isfinite(value) and value >= 0:
            found[name] = int(value) if name in _INTEGERS else float(value)
    return replace(Sampling(), **found)  # type: ignore[arg-type]  # names and types are the table's
