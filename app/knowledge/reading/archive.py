"""Parts of a zip file, with limits on what they unpack to: DOCX and EPUB files are zip files.

A part is unpacked in memory only, and only as far as it is read.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO

from app.knowledge.reading.source import Refused, Source

ENCRYPTED = 1
"""The bit of a part's flags."""
OLE_START = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""A container of another kind: Word's older files, and all its encrypted ones."""
OLE_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


class Archive:
    """Raises Refused for whatever is wrong with it."""

    def __init__(self, source: Source) -> None:
        if source.size > source.limits.file_bytes:
            raise Refused("too large")
        self._limits = source.limits
        self._unpacked = 0
        # zipfile raises NotImplementedError for versions and methods that it does not know.
        try:
            self._zip = zipfile.ZipFile(source.file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise Refused(_why_no_zip(source)) from error
        parts = self._zip.infolist()
        if len(parts) > self._limits.parts:
            raise Refused(f"skipped: more than {self._limits.parts:,} parts")
        if any(is_outside(part.filename) for part in parts):
            raise Refused("skipped: names of parts lead out of it")
        self._parts = {part.filename: part for part in parts}

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    @contextmanager
    def part(self, name: str) -> Iterator[IO[bytes]]:
        """One part, to be read from its beginning."""
        if name not in self._parts:
            raise Refused("skipped: damaged")
        if self._parts[name].flag_bits & ENCRYPTED:
            raise Refused("encrypted")
        try:
            with self._zip.open(name) as file:
                # The half of a file's interface that parsers use.
                yield _Counted(file, self)  # type: ignore[misc]
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
            raise Refused("skipped: damaged") from error

    def read(self, name: str) -> bytes:
        with self.part(name) as file:
            data = file.read(self._limits.parsed_bytes + 1)
        if len(data) > self._limits.parsed_bytes:
            raise Refused("too large")
        return data

    def count(self, size: int) -> None:
        """What was unpacked, whatever sizes the archive states."""
        self._unpacked += size
        if self._unpacked > self._limits.unpacked_bytes:
            raise Refused(f"skipped: it unpacks to more than {self._limits.unpacked_bytes:,} bytes")


class _Counted:
    """A part that is read in pieces, each of them counted."""

    def __init__(self, file: IO[bytes], archive: Archive) -> None:
        self._file = file
        self._archive = archive

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._archive.count(len(data))
        return data


def is_outside(name: str) -> bool:
    """Absolute, with a drive, or with `..` on the way."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or ":" in path.parts[0] if path.parts else False


def _why_no_zip(source: Source) -> str:
    start = source.beginning(source.limits.parsed_bytes)
    if start.startswith(OLE_START):
        return "encrypted" if OLE_ENCRYPTED in start else "skipped: an older format of Word"
    return "skipped: damaged"
