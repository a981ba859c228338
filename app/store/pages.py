"""Reads rows straight from the pages of an SQLite file, for files that SQLite itself refuses.

Every page is looked at on its own: a table leaf gives its rows, whatever else is broken. It knows
the file format (sqlite.org/fileformat2.html) and no table of ours.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Value = int | float | str | bytes | None

TABLE_LEAF = 0x0D
LOG_HEADER, FRAME_HEADER = 32, 24
PAGE_SIZES = frozenset(1 << power for power in range(9, 17))


@dataclass(frozen=True, slots=True)
class Row:
    rowid: int
    values: tuple[Value, ...]
    whole: bool
    """False: the row went on in pages that are lost; texts end early."""


class Pages:
    """A file's pages with those of its log over them. Page numbers start at 1."""

    def __init__(self, data: bytes, page_size: int, log: Mapping[int, bytes]) -> None:
        self._data = data
        self._size = page_size
        self._log = log

    @classmethod
    def read(cls, path: Path, log: Path) -> Pages:
        """Missing files count as empty; the page size falls back to 4096."""
        data = path.read_bytes() if path.is_file() else b""
        frames = log.read_bytes() if log.is_file() else b""
        size = page_size(data) or log_page_size(frames) or 4096
        return cls(data, size, log_pages(frames, size))

    @property
    def count(self) -> int:
        return max(-(-len(self._data) // self._size), *self._log, 0)

    def page(self, number: int) -> bytes:
        """Empty where there is no such page."""
        if number < 1:
            return b""
        if number in self._log:
            return self._log[number]
        return self._data[(number - 1) * self._size : number * self._size]

    def rows(self) -> Iterator[Row]:
        """Every row of every table that can be read, in order of pages."""
        for number in range(1, self.count + 1):
            yield from self.leaf(number)

    def leaf(self, number: int) -> Iterator[Row]:
        page = self.page(number)
        start = 100 if number == 1 else 0
        if len(page) < start + 8 or page[start] != TABLE_LEAF:
            return
        (cells,) = struct.unpack_from(">H", page, start + 3)
        for index in range(min(cells, (len(page) - start - 8) // 2)):
            (offset,) = struct.unpack_from(">H", page, start + 8 + 2 * index)
            row = self.cell(page, offset)
            if row is not None:
                yield row

    def cell(self, page: bytes, offset: int) -> Row | None:
        """The row of one cell; None where it makes no sense."""
        try:
            length, offset = varint(page, offset)
            rowid, offset = varint(page, offset)
            payload = self.payload(page, offset, length)
            values = record(payload)
        except (IndexError, ValueError, struct.error):
            return None
        return Row(signed(rowid), values, len(payload) == length)

    def payload(self, page: bytes, offset: int, length: int) -> bytes:
        """Up to `length` bytes of a row: those on the page and those of its overflow pages."""
        if length > 2**31:
            raise ValueError(length)
        here = local_bytes(length, self._size)
        pieces = [page[offset : offset + here]]
        missing = length - here
        following = struct.unpack_from(">I", page, offset + here)[0] if missing else 0
        seen: set[int] = set()
        while missing > 0 and following not in seen:
            seen.add(following)
            overflow = self.page(following)
            if len(overflow) < 4:
                break
            (following,) = struct.unpack_from(">I", overflow)
            pieces.append(overflow[4 : 4 + missing])
            missing -= len(pieces[-1])
        return b"".join(pieces)


def local_bytes(length: int, size: int) -> int:
    """How much of a row of `length` bytes lies on the leaf itself (no reserved bytes)."""
    if length <= size - 35:
        return length
    least = (size - 12) * 32 // 255 - 23
    here = least + (length - least) % (size - 4)
    return here if here <= size - 35 else least


def varint(data: bytes, offset: int) -> tuple[int, int]:
    """A number of 1 to 9 bytes and the offset after it."""
    value = 0
    for index in range(8):
        byte = data[offset + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, offset + index + 1
    return value << 8 | data[offset + 8], offset + 9


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def record(payload: bytes) -> tuple[Value, ...]:
    """The values of a row; those past the end of a cut payload are None, a cut text ends early."""
    header, offset = varint(payload, 0)
    if not 1 <= header <= len(payload):
        raise ValueError(header)
    kinds = []
    while offset < header:
        kind, offset = varint(payload, offset)
        kinds.append(kind)
    values: list[Value] = []
    position = header
    for kind in kinds:
        length = value_length(kind)
        values.append(value(kind, payload[position : position + length], length))
        position += length
    return tuple(values)


def value_length(kind: int) -> int:
    if kind < 12:
        if kind in (10, 11):
            raise ValueError(kind)
        return (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind]
    return (kind - 12) // 2


def value(kind: int, data: bytes, length: int) -> Value:
    if kind >= 12:
        return data if kind % 2 == 0 else data.decode(errors="replace")
    if kind in (8, 9):
        return kind - 8
    if kind == 0 or len(data) < length:
        return None
    if kind == 7:
        return float(struct.unpack(">d", data)[0])
    return int.from_bytes(data, "big", signed=True)


def page_size(data: bytes) -> int:
    """From the file's header; 0 where it says nothing sensible."""
    if len(data) < 100:
        return 0
    (size,) = struct.unpack_from(">H", data, 16)
    size = 65536 if size == 1 else size
    return size if size in PAGE_SIZES else 0


def log_page_size(log: bytes) -> int:
    if len(log) < LOG_HEADER:
        return 0
    (size,) = struct.unpack_from(">I", log, 8)
    return size if size in PAGE_SIZES else 0


def log_pages(log: bytes, size: int) -> dict[int, bytes]:
    """The newest committed version of each page in a log of that page size."""
    committed: dict[int, bytes] = {}
    if log_page_size(log) != size:
        return committed
    open_frames: dict[int, bytes] = {}
    salts = log[16:24]
    for start in range(LOG_HEADER, len(log) - FRAME_HEADER - size + 1, FRAME_HEADER + size):
        number, pages_after = struct.unpack_from(">II", log, start)
        if log[start + 8 : start + 16] != salts:
            break
        open_frames[number] = log[start + FRAME_HEADER : start + FRAME_HEADER + size]
        if pages_after:
            committed |= open_frames
            open_frames = {}
    return committed
