"""Safetensors folders as GGUF files, for the front ends: make one, find those that are kept.

A facade: the work is done in `models/conversion/`, the measurement in `engine/divergence.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.divergence import Divergence, divergence
from engine.errors import UsageError
from models.conversion.cache import (
    ConvertedModel,
    cached_conversion,
    find_converted,
    list_converted,
    remove_converted,
)
from models.conversion.convert import convert_folder, convert_to
from models.conversion.tensors import Kind

__all__ = [
    "TYPES",
    "Conversion",
    "ConvertedModel",
    "convert",
    "list_converted",
    "quality",
    "remove_converted",
]

TYPES: dict[str, Kind] = {"q8_0": "Q8_0", "f16": "F16", "bf16": "BF16"}
"""As they are called on the command line."""
Progress = Callable[[int, int], bool]


@dataclass(frozen=True, slots=True)
class Conversion:
    path: Path
    bytes: int
    kept: bool
    """It was made before, and nothing was written now."""


def convert(
    folder: Path, cache: Path, type_name: str, output: Path | None, progress: Progress
) -> Conversion:
    """Into `output` (a .gguf file, or a folder), or into the cache where it is None.

    Raises UsageError for an unknown type, and what `models.conversion.convert.convert_to` raises.
    """
    kind = _kind(type_name)
    kept = output is None and find_converted(folder, cache, kind) is not None
    if output is None:
        path = cached_conversion(folder, cache, kind, progress)
    elif output.suffix.lower() == ".gguf" and not output.is_dir():
        path = convert_to(folder, output, kind, progress)
    else:
        path = convert_folder(folder, output, kind, progress)
    return Conversion(path, path.stat().st_size, kept)


def quality(folder: Path, converted: Path, progress: Progress) -> Divergence:
    """How far a converted file is from the same model in F16, which is made beside it for this.

    Raises what `convert` raises.
    """
    with tempfile.TemporaryDirectory(prefix=".f16.", dir=converted.parent) as place:
        reference = convert_folder(folder, Path(place), "F16", progress)
        return divergence(reference, converted, Path(place))


def _kind(type_name: str) -> Kind:
    kind = TYPES.get(type_name.lower())
    if kind is None:
        raise UsageError(f"There is no type {type_name!r}.", "", f"Known: {', '.join(TYPES)}.")
    return kind
