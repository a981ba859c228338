"""Models in several files, `name-00001-of-00003.gguf`: any part leads to the whole set.

Knows file names and the `split.*` keys; the tensors themselves are checked by the reader of each
part.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from models.errors import ModelFileError
from models.loaders.gguf import GGUFFile, MetadataValue, TensorInfo, read_gguf
from models.sizes import show_name

MAX_PARTS = 10_000
_PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PartName:
    stem: str
    number: int
    """From 1."""
    count: int


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """One model: the header of its first file and the tensors of all."""

    parts: tuple[GGUFFile, ...]
    tensors: tuple[TensorInfo, ...]

    @property
    def first(self) -> GGUFFile:
        return self.parts[0]

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        return self.parts[0].metadata

    @property
    def byte_count(self) -> int:
        return sum(part.byte_count for part in self.parts)


def part_name(path: Path) -> PartName | None:
    """What a name like `x-00002-of-00003.gguf` says; None for any other."""
    match = _PART.match(path.name)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    return PartName(match["stem"], number, count) if 1 <= number <= count else None


def find_parts(path: Path) -> tuple[Path, ...]:
    """All files of the set that `path` belongs to, in order. Raises ModelFileError naming missing
    ones."""
    part = part_name(path)
    if part is None:
        return (path,)
    parts = tuple(
        path.with_name(f"{part.stem}-{number:05d}-of-{part.count:05d}.gguf")
        for number in range(1, min(part.count, MAX_PARTS) + 1)
    )
    missing = [show_name(file) for file in parts if not os.path.exists(file)]
    if missing:
        raise _incomplete(path, missing, part.count)
    return parts


def read_model(path: Path) -> ModelFiles:
    """The headers of all parts of a model. Raises ModelFileError when the set is not whole."""
    paths = find_parts(path)
    if len(paths) == 1:
        only = read_gguf(paths[0])
        _check_alone(only)
        return ModelFiles((only,), only.tensors)
    parts = tuple(read_gguf(part) for part in paths)
    for index, part in enumerate(parts):
        _check_place(part, index, len(parts))
    return ModelFiles(parts, _all_tensors(parts))


def _check_alone(file: GGUFFile) -> None:
    count = _split_key(file, "split.count")
    if count is None or count <= 1:
        return
    number = (_split_key(file, "split.no") or 0) + 1
    raise ModelFileError(
        f"{show_name(file.path)} is part {number} of {count}, under another name.",
        "Parts are found by their names, and this one was renamed.",
        f"Name the parts NAME-00001-of-{count:05d}.gguf to NAME-{count:05d}-of-{count:05d}.gguf.",
    )


def _check_place(file: GGUFFile, index: int, count: int) -> None:
    number, total = _split_key(file, "split.no"), _split_key(file, "split.count")
    if number is None or total is None or (number == index and total == count):
        return
    raise ModelFileError(
        f"{show_name(file.path)} does not belong where its name says.",
        f"Inside it says part {number + 1} of {total}; its name says {index + 1} of {count}.",
        "Give the parts their own names back, or download the set again.",
    )


def _split_key(file: GGUFFile, key: str) -> int | None:
    value = file.metadata.get(key)
    return value if type(value) is int else None


def _all_tensors(parts: tuple[GGUFFile, ...]) -> tuple[TensorInfo, ...]:
    tensors: dict[str, TensorInfo] = {}
    for part in parts:
        for tensor in part.tensors:
            if tensor.name in tensors:
                raise ModelFileError(
                    f"{show_name(part.path)} does not belong to this set.",
                    f"It holds the tensor {tensor.name} a second time.",
                    "Keep the parts of different models apart, or download the set again.",
                )
            tensors[tensor.name] = tensor
    total = parts[0].metadata.get("split.tensors.count")
    if type(total) is int and total != len(tensors):
        raise ModelFileError(
            f"{show_name(parts[0].path)} and its other parts do not make one model.",
            f"They hold {len(tensors):,} tensors; the first part counts {total:,}.",
            "Download the set again.",
        )
    return tuple(tensors.values())


def _incomplete(path: Path, missing: list[str], count: int) -> ModelFileError:
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5:,} more" if len(missing) > 5 else "")
    verb = "is" if len(missing) == 1 else "are"
    return ModelFileError(
        f"{show_name(path)} is one of {count} parts, and not all are there.",
        f"{shown} {verb} missing.",
        "Download what is missing into the same folder.",
    )
