"""What tells one document from another: the hash of a file's bytes and of how they are read.

The same bytes under `.md` and under `.txt` are two documents: their chunks differ.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO

from app.knowledge.folder_walk import FoundFile, found_from
from app.knowledge.reading.kinds import kind_of

BLOCK_BYTES = 2**20
WHOLE_BYTES = 64 * 2**20
"""Up to this size all bytes count; of larger files the ends, the size and the time do."""
END_BYTES = 8 * 2**20
DOUBT_NS = 2_000_000_000
"""A file changed this shortly before its bytes were read may have changed again without a new time:
file systems keep times in steps of up to two seconds.
"""
DIGEST_BYTES = 20


@dataclass(frozen=True, slots=True)
class FileBytes:
    """A file's content at one moment."""

    digest: bytes
    """Of its bytes and of the way that its name has them read."""
    read_ns: int
    """System clock, before the first byte was read."""
    found: FoundFile
    """The file as it was then."""


def file_bytes(found: FoundFile) -> FileBytes:
    """Raises OSError. Never waits for a pipe, never follows a link."""
    read_ns = time.time_ns()
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(found.path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(2, os.strerror(2), os.fspath(found.path))
        now = found_from(found.path, found.relative, status)
        digest = blake2b(digest_size=DIGEST_BYTES, person=way_of_reading(found.path))
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            for block in telling(file, now):
                digest.update(block)
    finally:
        os.close(descriptor)
    return FileBytes(digest.digest(), read_ns, now)


def way_of_reading(path: Path) -> bytes:
    """Names that are read in one way have the same: those of plain text, or of one ending."""
    suffix = path.suffix.lower()
    way = "" if kind_of(suffix) == "text" else suffix
    return way.encode("utf-8", "surrogateescape")[: blake2b.PERSON_SIZE]


def telling(file: IO[bytes], found: FoundFile) -> Iterator[bytes]:
    """The bytes that count; no more than the file has by its status, for some never end."""
    if found.size <= WHOLE_BYTES:
        left = found.size
        while block := file.read(min(BLOCK_BYTES, left)):
            left -= len(block)
            yield block
        return
    yield f"{found.size} {found.mtime_ns} ".encode()
    yield file.read(END_BYTES)
    file.seek(found.size - END_BYTES)
    yield file.read(END_BYTES)


def is_same_status(found: FoundFile, other: FoundFile) -> bool:
    """Whether nothing tells that the file was written in between."""
    return stamp(found) == stamp(other)


def stamp(found: FoundFile) -> tuple[int, int, int, int]:
    # Without the device: its number changes when a disk is mounted again.
    return found.size, found.mtime_ns, found.ctime_ns, found.inode[1]


def is_doubtful(found: FoundFile, read_ns: int) -> bool:
    """Whether the file can have changed after its bytes were read without showing it."""
    return max(found.mtime_ns, found.ctime_ns) + DOUBT_NS > read_ns
