"""Reads the header of one safetensors file, strictly, before any other code touches the file.

The file is: the header's length (uint64), the header (JSON: tensor name -> dtype, shape, first and
last+1 byte), the data. Everything is checked against the bytes that are there; the data stay in the
file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import ModelFileError, ModelNotFound, UnsupportedModel
from models.sizes import show_bytes, show_name, show_sizes, show_text

MAX_HEADER_BYTES = 100_000_000
"""As the format's own reader has it."""
MAX_TENSORS = 1_000_000
MAX_DIMENSIONS = 8
MAX_NAME = 1_000

DTYPE_BYTES: dict[str, int] = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
}
"""Name of a dtype -> bytes of one value."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    name: str
    dtype: str
    """A key of `DTYPE_BYTES`."""
    shape: tuple[int, ...]
    """torch's order; empty for a single number."""
    offset: int
    """From the start of its file, in bytes."""
    byte_count: int
    file: Path


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a model."""

    path: Path
    byte_count: int
    data_offset: int
    """Where the tensors begin, and so the length of the header."""
    tensors: tuple[StoredTensor, ...]


class _Damaged(Exception):
    """A rule of the format is broken; the words say which."""


def read_shard(path: Path) -> Shard:
    """The header of one file. Raises ModelNotFound, ModelFileError or UnsupportedModel."""
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return _read(path, size, stream.read(8), stream.read)
    except FileNotFoundError:
        raise ModelNotFound(
            f"There is no file {show_name(path)}.",
            f"It belongs to the model in {show_name(path.parent)}.",
            "Download the missing file into that folder.",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(
            f"{show_name(path)} cannot be read.",
            f"The system says: {show_text(reason)}.",
            "Check the path and the file's permissions.",
        ) from error
    except _Damaged as damage:
        raise ModelFileError(
            f"{show_name(path)} is damaged.",
            f"Its header holds {damage}.",
            "Download the file again.",
        ) from None


def _read(path: Path, size: int, start: bytes, read: Callable[[int], bytes]) -> Shard:
    if len(start) < 8:
        raise _incomplete(path, f"It has {size:,} bytes, too few for a header.")
    length = int.from_bytes(start, "little")
    if start.startswith(b"version "):
        raise ModelFileError(
            f"{show_name(path)} is a git-lfs pointer, not the weights.", "", "Run `git lfs pull`."
        )
    if length > MAX_HEADER_BYTES:
        raise _Damaged(f"a length of {length:,} bytes; it is no safetensors file")
    if 8 + length > size:
        raise _incomplete(path, f"The file ends at {show_bytes(size)}, inside its header.")
    data_offset = 8 + length
    tensors = _tensors(path, _parse(read(length)), data_offset)
    _check_places(path, tensors, data_offset, size)
    return Shard(path, size, data_offset, tensors)


def _incomplete(path: Path, text: str) -> ModelFileError:
    return ModelFileError(
        f"{show_name(path)} is not complete.",
        f"{text} The download is incomplete.",
        "Download the file again.",
    )


def _parse(raw: bytes) -> dict[str, Any]:
    if raw[:1] != b"{":
        raise _Damaged("no JSON")
    try:
        values = json.loads(raw, object_pairs_hook=_no_doubles)
    except (ValueError, RecursionError):
        raise _Damaged("JSON that cannot be read") from None
    assert isinstance(values, dict)
    notes = values.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise _Damaged("notes (__metadata__) that are not texts")
    if len(values) > MAX_TENSORS:
        raise _Damaged(f"{len(values):,} tensors")
    return values


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise _Damaged(f"{show_text(key[:80])!r} twice")
        values[key] = value
    return values


def _tensors(path: Path, values: dict[str, Any], data_offset: int) -> tuple[StoredTensor, ...]:
    tensors = (_tensor(path, name, entry, data_offset) for name, entry in values.items())
    return tuple(sorted(tensors, key=lambda tensor: tensor.offset))


def _tensor(path: Path, name: str, entry: Any, data_offset: int) -> StoredTensor:
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise _Damaged("a tensor name that is not readable text")
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _Damaged(f"no dtype, shape and place for the tensor {name}")
    dtype = _dtype(path, name, entry["dtype"])
    shape = tuple(_counts(entry["shape"], name, "shape"))
    places = tuple(_counts(entry["data_offsets"], name, "place"))
    if len(shape) > MAX_DIMENSIONS:
        raise _Damaged(f"the tensor {name} with {len(shape)} dimensions")
    if 0 in shape:
        raise _Damaged(f"the tensor {name} with a dimension of 0")
    byte_count = math.prod(shape) * DTYPE_BYTES[dtype]
    if len(places) != 2 or places[1] - places[0] != byte_count:
        raise _Damaged(f"a place for the tensor {name} that is not {byte_count:,} bytes long")
    return StoredTensor(name, dtype, shape, data_offset + places[0], byte_count, path)


def _dtype(path: Path, name: str, dtype: Any) -> str:
    if isinstance(dtype, str) and dtype in DTYPE_BYTES:
        return dtype
    raise UnsupportedModel(
        f"{show_name(path)} cannot be used.",
        f"The tensor {name} has the dtype {show_text(str(dtype)[:40])}, which is not known.",
        "Use another version of the model, or a newer localchat.",
    )


def _counts(values: Any, name: str, what: str) -> Iterator[int]:
    if not isinstance(values, list):
        raise _Damaged(f"no {what} for the tensor {name}")
    for value in values:
        if type(value) is not int or not 0 <= value < 2**63:
            raise _Damaged(f"a {what} of the tensor {name} that is no whole number from 0 on")
        yield value


def _check_places(
    path: Path, tensors: tuple[StoredTensor, ...], data_offset: int, size: int
) -> None:
    end = data_offset
    for tensor in tensors:
        if tensor.offset < end:
            raise _Damaged(f"the tensor {tensor.name} over the one before it")
        if tensor.offset > end:
            raise _Damaged(f"a hole before the tensor {tensor.name}")
        end = tensor.offset + tensor.byte_count
    if end > size:
        has, needs = show_sizes(size, end)
        raise _incomplete(path, f"The file ends at {has} of {needs}.")
    if end < size:
        raise _Damaged(f"tensors up to {end:,} bytes; the file goes on to {size:,}")
