"""One opened file, and the words for why it cannot be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from app.knowledge.reading.limits import Limits

Progress = Callable[[int, int], None]
"""Called with the pages read and the pages of all."""


class Refused(Exception):
    """The file has no document; the message is its final state."""


def no_progress(done: int, total: int) -> None:
    """For callers that do not wait."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a reader is given."""

    file: BinaryIO
    name: str
    """The file's name without folders, as the system gives it."""
    size: int
    """Bytes."""
    limits: Limits = field(default_factory=Limits)
    progress: Progress = no_progress

    @property
    def suffix(self) -> str:
        """Lower case, with its dot."""
        return Path(self.name).suffix.lower()

    def whole(self, most: int) -> bytes:
        """All bytes. Raises Refused above `most`."""
        if self.size > most:
            raise Refused("too large")
        self.file.seek(0)
        data = self.file.read(most + 1)
        if len(data) > most:
            raise Refused("too large")
        return data

    def beginning(self, most: int) -> bytes:
        self.file.seek(0)
        return self.file.read(most)


@contextmanager
def opened(path: Path, root: Path | None, limits: Limits, progress: Progress) -> Iterator[Source]:
    """A regular file, never a link, a pipe or a device; inside `root` where one is given.

    Raises Refused, or OSError when the system refuses.
    """
    # Without waiting: opening a named pipe would wait for its other end.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise Refused("skipped: not a regular file")
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Refused("skipped: not a regular file")
        if root is not None and not _is_inside(path, root, status):
            raise Refused("skipped: it lies outside the folder")
        yield Source(file, path.name, status.st_size, limits, progress)


def _is_inside(path: Path, root: Path, status: os.stat_result) -> bool:
    """Looked up after opening: a folder on the way may have been replaced by a link."""
    real = Path(os.path.realpath(path))
    found = os.stat(real)
    same = (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)
    return same and real.is_relative_to(os.path.realpath(root))
