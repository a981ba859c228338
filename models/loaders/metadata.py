"""The key-value part of a GGUF header: one pass over a buffer, arrays left where they are.

Bounds every count by the bytes that are left before it is used. Knows nothing of what the keys
mean.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

Buffer = bytes | mmap
Scalar = int | float | bool | str

MAX_STRINGS = 8_000_000
"""Strings in one array; the largest vocabularies have 0.3 million tokens and 0.6 million merges."""
MAX_KEY_BYTES = 65_535
MAX_NESTING = 2

STRING, ARRAY, BOOL = 8, 9, 7
_SCALARS: dict[int, struct.Struct] = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    BOOL: struct.Struct("<B"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_U64 = struct.Struct("<Q")
_U32 = struct.Struct("<I")


class Damaged(Exception):
    """A rule of the format is broken; the words say which."""


class EndOfData(Exception):
    """The header wants to go on behind the end of the file."""


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """An array of a header, known by its place; `read` fetches it."""

    file: Path
    element_type: int
    count: int
    offset: int
    """Of the first element, in bytes from the file's start."""
    byte_count: int

    def read(self) -> list[Scalar]:
        """The elements; bytes that are not UTF-8 become replacement marks. Nested arrays raise."""
        data = self.raw()
        if self.element_type == STRING:
            return _read_strings(data, self.count)
        if self.element_type == ARRAY:
            raise Damaged("an array of arrays where a flat one is expected")
        kind = _SCALARS[self.element_type]
        values: list[Scalar] = [value for (value,) in kind.iter_unpack(data)]
        return [bool(value) for value in values] if self.element_type == BOOL else values

    def strings(self, indexes: list[int]) -> list[str]:
        """Some elements of a string array, by ascending index."""
        wanted, data, texts, position = iter(indexes), self.raw(), list[str](), 0
        target = next(wanted, None)
        for index in range(self.count):
            if target is None:
                break
            (length,) = _U64.unpack_from(data, position)
            position += 8
            if index == target:
                texts.append(data[position : position + length].decode("utf-8", "replace"))
                target = next(wanted, None)
            position += length
        return texts

    def raw(self) -> bytes:
        """The elements as they lie in the file."""
        with self.file.open("rb") as stream:
            stream.seek(self.offset)
            return stream.read(self.byte_count)


MetadataValue = Scalar | ArrayValue


def _read_strings(data: bytes, count: int) -> list[Scalar]:
    texts: list[Scalar] = []
    position = 0
    for _ in range(count):
        (length,) = _U64.unpack_from(data, position)
        position += 8 + length
        texts.append(data[position - length : position].decode("utf-8", "replace"))
    return texts


class Cursor:
    """A place in a header; every step checks the bytes that are left."""

    def __init__(self, buffer: Buffer, size: int, file: Path) -> None:
        self.buffer = buffer
        self.size = size
        self.file = file
        self.position = 0

    def u32(self) -> int:
        return int(self._unpack(_U32))

    def u64(self) -> int:
        return int(self._unpack(_U64))

    def text_bytes(self, limit: int | None = None) -> bytes:
        length = self.u64()
        if limit is not None and length > limit:
            raise Damaged(f"a name of {length:,} bytes")
        self._need(length)
        start, self.position = self.position, self.position + length
        return bytes(self.buffer[start : self.position])

    def value(self) -> MetadataValue:
        kind = self.u32()
        if kind == STRING:
            return self.text_bytes().decode("utf-8", "replace")
        if kind == ARRAY:
            return self._array(1)
        return self._scalar(kind)

    def _scalar(self, kind: int) -> Scalar:
        if kind not in _SCALARS:
            raise Damaged(f"the unknown value type {kind}")
        value: int | float = self._unpack(_SCALARS[kind])
        if kind != BOOL:
            return value
        if value not in (0, 1):
            raise Damaged(f"the truth value {value}")
        return bool(value)

    def _array(self, depth: int) -> ArrayValue:
        kind, count = self.u32(), self.u64()
        start = self.position
        self._skipper(kind, depth)(count)
        return ArrayValue(self.file, kind, count, start, self.position - start)

    def _skipper(self, kind: int, depth: int) -> Callable[[int], None]:
        if kind == STRING:
            return self._skip_strings
        if kind == ARRAY:
            if depth >= MAX_NESTING:
                raise Damaged(f"arrays nested deeper than {MAX_NESTING}")
            return self._skip_arrays
        if kind not in _SCALARS:
            raise Damaged(f"the unknown value type {kind}")
        return lambda count: self._skip(count * _SCALARS[kind].size)

    def _skip_strings(self, count: int) -> None:
        if count > MAX_STRINGS:
            raise Damaged(f"an array of {count:,} strings")
        self._need(8 * count)
        buffer, position, unpack = self.buffer, self.position, _U64.unpack_from
        try:
            for _ in range(count):
                position += 8 + unpack(buffer, position)[0]
        except (struct.error, OverflowError, ValueError) as error:
            raise EndOfData from error
        self._skip(position - self.position)

    def _skip_arrays(self, count: int) -> None:
        if count > MAX_STRINGS:
            raise Damaged(f"an array of {count:,} arrays")
        self._need(12 * count)
        for _ in range(count):
            self._array(2)

    def _skip(self, count: int) -> None:
        self._need(count)
        self.position += count

    def _need(self, count: int) -> None:
        if count > self.size - self.position:
            raise EndOfData

    def _unpack(self, kind: struct.Struct) -> int | float:
        self._need(kind.size)
        (value,) = kind.unpack_from(self.buffer, self.position)
        self.position += kind.size
        number: int | float = value
        return number
