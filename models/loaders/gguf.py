"""Reads the header of a GGUF file, strictly, before any other code touches the file.

Every count, length, type and offset is checked against the bytes that are there. Arrays and tensors
stay in the file: only their places are returned. Knows nothing of architectures, and never runs
anything from a file.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from models.errors import ModelFileError, ModelNotFound, UnsupportedModel
from models.loaders.foreign import explain_directory, explain_foreign, explain_piece, part_of
from models.loaders.ggml_types import GGML_TYPES, GGMLType
from models.loaders.metadata import (
    MAX_KEY_BYTES,
    ArrayValue,
    Cursor,
    Damaged,
    EndOfData,
    MetadataValue,
)
from models.sizes import show_bytes, show_name, show_sizes, show_text

__all__ = ["ArrayValue", "GGUFFile", "MetadataValue", "TensorInfo", "read_gguf"]

MAGIC = b"GGUF"
MAX_TENSORS = 100_000
MAX_KEYS = 10_000
MAX_TENSOR_NAME_BYTES = 63
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 20
DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class TensorInfo:
    name: str
    shape: tuple[int, ...]
    """ggml's order: the first is the length of a row."""
    type: GGMLType
    offset: int
    """From the start of its file, in bytes."""
    byte_count: int
    file: Path


@dataclass(frozen=True, slots=True)
class GGUFFile:
    path: Path
    version: int
    metadata: Mapping[str, MetadataValue]
    places: Mapping[str, tuple[int, int]]
    """Key -> first and last+1 byte of its type and value in the file."""
    tensors: tuple[TensorInfo, ...]
    byte_count: int
    data_offset: int
    """Where the tensors begin, and so the length of the header with its padding."""
    alignment: int


@dataclass(frozen=True, slots=True)
class _RawTensor:
    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int


def read_gguf(path: Path) -> GGUFFile:
    """The header of one file. Raises ModelNotFound, ModelFileError or UnsupportedModel."""
    size = _size_of(path)
    if piece := part_of(path):
        raise explain_piece(path, piece)
    try:
        with path.open("rb") as stream:
            start = stream.read(4096)
            if start[:4] != MAGIC:
                raise explain_foreign(path, start, size)
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                return _read_checked(path, buffer, size)
    except OSError as error:
        raise _unreadable(path, error) from error


def _read_checked(path: Path, buffer: mmap.mmap, size: int) -> GGUFFile:
    try:
        return _read_header(path, buffer, min(size, len(buffer)))
    except EndOfData:
        raise ModelFileError(
            f"{show_name(path)} is not complete.",
            f"The file ends at {show_bytes(size)}, inside its header: the download is incomplete.",
            "Download the file again.",
        ) from None
    except Damaged as damage:
        raise ModelFileError(
            f"{show_name(path)} is damaged.",
            f"Its header holds {damage}.",
            "Download the file again, or use another one.",
        ) from None


def _size_of(path: Path) -> int:
    try:
        status = path.stat()
    except FileNotFoundError:
        raise ModelNotFound(
            f"There is no file {show_name(path)}.",
            f"Looked at {show_text(os.fspath(path))}.",
            "Check the path, or run `localchat models` for those that are there.",
        ) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if path.is_dir():
        raise explain_directory(path)
    if not path.is_file():
        raise ModelFileError(f"{show_name(path)} is not a regular file.", "", "Name a GGUF file.")
    return status.st_size


def _unreadable(path: Path, error: OSError | ValueError) -> ModelFileError:
    reason = getattr(error, "strerror", None) or str(error)
    return ModelFileError(
        f"{show_name(path)} cannot be read.",
        f"The system says: {show_text(reason)}.",
        "Check the path and the file's permissions.",
    )


def _read_header(path: Path, buffer: mmap.mmap, size: int) -> GGUFFile:
    cursor = Cursor(buffer, size, path)
    cursor.u32()
    version = _check_version(path, cursor.u32())
    tensor_count, key_count = cursor.u64(), cursor.u64()
    if tensor_count > MAX_TENSORS:
        raise Damaged(f"{tensor_count:,} tensors; at most {MAX_TENSORS:,} are possible")
    if key_count > MAX_KEYS:
        raise Damaged(f"{key_count:,} keys; at most {MAX_KEYS:,} are possible")
    metadata, places = _read_metadata(cursor, key_count)
    alignment = _alignment(metadata)
    raw = [_read_tensor(cursor) for _ in range(tensor_count)]
    data_offset = _aligned(cursor.position, alignment)
    tensors = _place(path, raw, data_offset, alignment)
    _check_end(path, buffer, size, tensors, data_offset, alignment)
    return GGUFFile(path, version, metadata, places, tensors, size, data_offset, alignment)


def _check_version(path: Path, version: int) -> int:
    if version in (2, 3):
        return version
    (swapped,) = struct.unpack(">I", struct.pack("<I", version))
    if swapped in (1, 2, 3):
        text = (
            f"It is a big-endian GGUF file (version {swapped}); only little-endian files run here."
        )
    else:
        text = f"It is GGUF version {version}; versions 2 and 3 are known."
    raise UnsupportedModel(
        f"{show_name(path)} cannot be used.", text, "Get the model in a current GGUF file."
    )


def _read_metadata(
    cursor: Cursor, count: int
) -> tuple[dict[str, MetadataValue], dict[str, tuple[int, int]]]:
    metadata: dict[str, MetadataValue] = {}
    places: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        key = _printable(cursor.text_bytes(MAX_KEY_BYTES), "key")
        if key in metadata:
            raise Damaged(f"the key {key} twice")
        start = cursor.position
        try:
            metadata[key] = cursor.value()
        except Damaged as damage:
            raise Damaged(f"{damage}, at the key {key[:80]}") from None
        places[key] = (start, cursor.position)
    return metadata, places


def _alignment(metadata: Mapping[str, MetadataValue]) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(value) is not int or not 0 < value <= MAX_ALIGNMENT or value & (value - 1):
        raise Damaged(f"an alignment that is no power of two up to {MAX_ALIGNMENT:,}")
    return value


def _read_tensor(cursor: Cursor) -> _RawTensor:
    name = _printable(cursor.text_bytes(MAX_TENSOR_NAME_BYTES), "tensor name")
    dimensions = cursor.u32()
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise Damaged(f"the tensor {name} with {dimensions:,} dimensions")
    shape = tuple(cursor.u64() for _ in range(dimensions))
    if min(shape) < 1:
        raise Damaged(f"the tensor {name} with a dimension of 0")
    return _RawTensor(name, shape, cursor.u32(), cursor.u64())


def _place(
    path: Path, raw: list[_RawTensor], data_offset: int, alignment: int
) -> tuple[TensorInfo, ...]:
    tensors: list[TensorInfo] = []
    names: set[str] = set()
    end = 0
    for tensor in raw:
        if tensor.name in names:
            raise Damaged(f"the tensor {tensor.name} twice")
        names.add(tensor.name)
        kind = _known_type(path, tensor)
        byte_count = _byte_count(tensor, kind)
        if tensor.offset % alignment:
            raise Damaged(f"the tensor {tensor.name} at an unaligned place")
        if tensor.offset < end:
            raise Damaged(f"the tensor {tensor.name} over the one before it")
        end = tensor.offset + byte_count
        place = data_offset + tensor.offset
        tensors.append(TensorInfo(tensor.name, tensor.shape, kind, place, byte_count, path))
    return tuple(tensors)


def _known_type(path: Path, tensor: _RawTensor) -> GGMLType:
    kind = GGML_TYPES.get(tensor.type_id)
    if kind is None:
        raise UnsupportedModel(
            f"{show_name(path)} cannot be used.",
            f"The tensor {tensor.name} has the storage type {tensor.type_id}, which is not known.",
            "Use another quantization of the model, or a newer localchat.",
        )
    return kind


def _byte_count(tensor: _RawTensor, kind: GGMLType) -> int:
    if tensor.shape[0] % kind.block_values:
        raise Damaged(
            f"the tensor {tensor.name} with rows of {tensor.shape[0]:,} values, "
            f"which are no whole blocks of {kind.name} ({kind.block_values} values)"
        )
    values = 1
    for dimension in tensor.shape:
        values *= dimension
    return kind.byte_count(values)


def _check_end(
    path: Path,
    buffer: mmap.mmap,
    size: int,
    tensors: tuple[TensorInfo, ...],
    data_offset: int,
    alignment: int,
) -> None:
    end = tensors[-1].offset + tensors[-1].byte_count if tensors else 0
    if end > size:
        has, needs = show_sizes(size, end)
        raise ModelFileError(
            f"{show_name(path)} is not complete.",
            f"The file ends at {has} of {needs}: the download is incomplete.",
            "Download the file again.",
        )
    if not tensors:
        return
    for place in (end, _aligned(end - data_offset, alignment) + data_offset):
        if buffer[place : place + 4] == MAGIC:
            raise ModelFileError(
                f"{show_name(path)} is several files joined into one.",
                f"A second GGUF file begins at {show_bytes(place)} of {show_bytes(size)}.",
                "Parts named -00001-of-0000N are not to be joined: open the first of them.",
            )


def _aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def _printable(raw: bytes, kind: str) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise Damaged(f"a {kind} that is not readable text")
    return text
