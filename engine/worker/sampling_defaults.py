"""The sampling that a model file recommends, over our own defaults. Knows no request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from engine.request import Sampling
from models.hf_folder import read_folder
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
_FOLDER_KEYS = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
}
"""Of generation_config.json."""
_INTEGERS = frozenset({"top_k", "repeat_last_n"})


def sampling_defaults(description: ModelDescription) -> Sampling:
    """A value that is no finite, non-negative number is left out: the file is not trusted."""
    if description.format == "safetensors":
        return _chosen(read_folder(description.path).generation, _FOLDER_KEYS)
    return _chosen(read_gguf(description.path).metadata, _KEYS)


def _chosen(values: Mapping[str, object], keys: Mapping[str, str]) -> Sampling:
    found: dict[str, float | int] = {}
    for key, name in keys.items():
        value = values.get(key)
        if isinstance(value, (int, float)) and math.isfinite(value) and value >= 0:
            found[name] = int(value) if name in _INTEGERS else float(value)
    return replace(Sampling(), **found)  # type: ignore[arg-type]  # names and types are the table's
