"""The bytes of a parked sequence: a small header, llama.cpp's whole state, and the restore points.

Knows the layout only. Everything is checked here before llama.cpp sees a byte.

    magic 4s | version u16 | points u16 | signature 16s | length u32 | reserved u32 | state size u64
    then per point: length u32 | reserved u32 | size u64; then the state, then the points
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_HEADER = struct.Struct("<4sHH16sIIQ")
_POINT = struct.Struct("<IIQ")
_MAGIC = b"LCPK"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of the envelope's bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Envelope:
    length: int
    state: Section
    points: Mapping[int, Section]
    """Restore points by length."""


def new_envelope(
    signature: bytes, length: int, state_size: int, points: Mapping[int, bytes]
) -> tuple[bytes, int]:
    """An envelope with its restore points, and the offset where `state_size` bytes of state belong.

    The state is written straight into the fresh object before anybody else sees it: a conversation
    of 100 MB is not copied a second time.
    """
    table = b"".join(_POINT.pack(at, 0, len(blob)) for at, blob in points.items())
    head = _HEADER.pack(_MAGIC, _VERSION, len(points), signature, length, 0, state_size) + table
    offset = len(head)
    data = bytes(offset + state_size + sum(map(len, points.values())))
    _write(data, 0, head)
    at = offset + state_size
    for blob in points.values():
        _write(data, at, blob)
        at += len(blob)
    return data, offset


def read_envelope(data: bytes, signature: bytes) -> Envelope | None:
    """None for anything that is not complete, or was made by another model or other settings."""
    if len(data) < _HEADER.size:
        return None
    magic, version, count, made_by, length, _, state_size = _HEADER.unpack_from(data)
    if (magic, version, made_by) != (_MAGIC, _VERSION, signature):
        return None
    offset = _HEADER.size + count * _POINT.size
    if len(data) < offset:
        return None
    state = Section(offset, state_size)
    points: dict[int, Section] = {}
    end = offset + state_size
    for index in range(count):
        at, _, size = _POINT.unpack_from(data, _HEADER.size + index * _POINT.size)
        points[at] = Section(end, size)
        end += size
    return Envelope(length, state, points) if end == len(data) else None


def address(data: bytes, offset: int = 0) -> int:
    """Where the bytes lie in memory; valid as long as `data` is referenced."""
    start = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
    assert start is not None
    return start + offset


def _write(data: bytes, offset: int, piece: bytes) -> None:
    ctypes.memmove(address(data, offset), piece, len(piece))
