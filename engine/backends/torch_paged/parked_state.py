"""The bytes of a parked sequence: what it held as numbers, then the records of its blocks.

    magic 4s | version u16 | reserved u16 | signature 16s | size of the books u64 | books | records

The books are MessagePack, blocks numbered from 1 in each group; the records follow group by group
in that order. Knows the layout only; everything is checked before a byte of it is used.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.backends.torch_paged.held import Held

Bytes = npt.NDArray[np.uint8]

_HEADER = struct.Struct("<4sHH16sQ")
_MAGIC = b"LCPP"
_VERSION = 2
"""Of these bytes and of the pool's layout; 1 had the dims of a 4-bit K in another order."""


@dataclass(frozen=True, slots=True)
class Books:
    """What lies in the records."""

    counts: tuple[int, ...]
    """Blocks of each group."""
    held: Held
    """With blocks numbered from 1."""


@dataclass(frozen=True, slots=True)
class ParkedState:
    books: Books
    records: tuple[Bytes, ...]
    """Per group [counts[group], record_bytes], views of the bytes."""


def signature(description: str) -> bytes:
    """What a state must match: the text names everything that its bytes depend on."""
    return hashlib.blake2b(description.encode(), digest_size=16).digest()


def new_state(
    made_by: bytes, books: Books, record_bytes: Sequence[int]
) -> tuple[bytes, tuple[Bytes, ...]]:
    """The bytes, and writable views of where the records of each group belong.

    They are written into the fresh object before anybody else sees it: a large conversation is not
    copied a second time.
    """
    import msgspec  # where nothing is parked the backend runs without it

    head = msgspec.msgpack.encode(books)
    head = _HEADER.pack(_MAGIC, _VERSION, 0, made_by, len(head)) + head
    total = sum(n * size for n, size in zip(books.counts, record_bytes, strict=True))
    data = bytes(len(head) + total)
    view = np.asarray(_Writable(data))
    view[: len(head)] = np.frombuffer(head, np.uint8)
    return data, _records(view, len(head), books.counts, record_bytes)


def read_state(data: bytes, made_by: bytes, record_bytes: Sequence[int]) -> ParkedState | None:
    """None for anything that is not complete, or was made by another model or other settings."""
    import msgspec

    if len(data) < _HEADER.size:
        return None
    magic, version, _, signed, size = _HEADER.unpack_from(data)
    if (magic, version, signed) != (_MAGIC, _VERSION, made_by):
        return None
    end = _HEADER.size + size
    try:
        books = msgspec.msgpack.decode(data[_HEADER.size : end], type=Books)
    except msgspec.DecodeError:
        return None
    if len(books.counts) != len(record_bytes) or not _is_sound(books):
        return None
    total = sum(n * one for n, one in zip(books.counts, record_bytes, strict=True))
    if end + total != len(data):
        return None
    view = np.frombuffer(data, np.uint8)
    return ParkedState(books, _records(view, end, books.counts, record_bytes))


class _Writable:
    """Memory of a bytes object for numpy, which keeps this and so the bytes alive."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (len(data),),
            "data": (address, False),
        }


def _records(
    view: Bytes, start: int, counts: Sequence[int], record_bytes: Sequence[int]
) -> tuple[Bytes, ...]:
    found = []
    for count, size in zip(counts, record_bytes, strict=True):
        found.append(view[start : start + count * size].reshape(count, size))
        start += count * size
    return tuple(found)


def _is_sound(books: Books) -> bool:
    """Whether every block that is named is there."""
    groups = range(len(books.counts))
    every = [books.held.runs, *books.held.marks.values()]
    return all(len(runs) == len(books.counts) for runs in every) and all(
        1 <= block <= books.counts[group]
        for runs in every
        for group in groups
        for block in runs[group].blocks
    )
