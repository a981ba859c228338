"""Finds the documents of a folder: regular files inside it, each once, secrets left out.

Links are never followed: what they lead to inside the folder is found where it lies, and what lies
outside is not asked for. Nothing is opened but folders. It knows nothing of what files hold.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.errors import file_error
from app.knowledge.left_out import file_reason, folder_reason
from app.sanitize import single_line
from engine.errors import LocalchatError

Inode = tuple[int, int]
"""Device and number on it."""
LARGEST = 2**63 - 1


class RootMissing(LocalchatError):
    """The folder is gone, or the disk that it lies on: nothing is known about its files."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to be read."""

    path: Path
    relative: str
    """To the root, with `/`; bytes that are no text as lone surrogates (`os.fsdecode`)."""
    size: int
    """Bytes."""
    mtime_ns: int
    inode: Inode
    ctime_ns: int = 0
    """Changes with the content although a program put the old `mtime_ns` back."""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file or folder that is left out, to be listed."""

    path: Path
    relative: str
    reason: str
    """In words: `secret`, `hidden`, `link out of the folder`."""


def found_from(path: Path, relative: str, status: os.stat_result) -> FoundFile:
    """Numbers and times as 64 bits with a sign hold them: some file systems give larger ones."""
    return FoundFile(
        path,
        relative,
        status.st_size,
        _nearest(status.st_mtime_ns),
        (_folded(status.st_dev), _folded(status.st_ino)),
        _nearest(status.st_ctime_ns),
    )


def root_device(root: Path) -> int:
    """The device that the folder lies on, for `walk`. Raises RootMissing."""
    return _folded(_root_status(root).st_dev)


def walk(
    root: Path, *, device: int | None = None, ours: Collection[Path] = ()
) -> Iterator[FoundFile | SkippedFile]:
    """Everything below `root`, in the order of names.

    `device`: of the last walk. An empty folder on another device is a mount point without its disk.
    `ours`: folders that are left out wherever they lie, such as our own.
    Raises RootMissing at the start, or at the end when the folder went away meanwhile: what came
    until then is true, but nothing may be taken for deleted.
    """
    root = Path(os.path.abspath(root))
    status = _root_status(root)
    walker = _Walk(root, frozenset(_inodes(ours)))
    is_empty = True
    for found in walker.folder(root, status):
        is_empty = False
        yield found
    after = _root_status(root)
    is_other = device not in (None, _folded(after.st_dev))
    if _inode(after) != _inode(status) or (is_empty and is_other):
        raise _missing(root, "The disk that it lies on is not there.")


class _Walk:
    """One walk: what was seen so far."""

    def __init__(self, root: Path, ours: frozenset[Inode]) -> None:
        self._root = root
        self._real_root = os.path.realpath(root)
        self._ours = ours
        self._seen: dict[Inode, str] = {}

    def folder(self, path: Path, status: os.stat_result) -> Iterator[FoundFile | SkippedFile]:
        if _inode(status) in self._ours:
            yield self._skipped(path, "localchat's own folder")
            return
        self._seen[_inode(status)] = "."
        waiting = [path]
        while waiting:
            folders: list[Path] = []
            place = waiting.pop()
            try:
                with os.scandir(place) as entries:
                    names = sorted(entry.name for entry in entries)
            except OSError as error:
                if place == self._root:
                    raise _missing(self._root, file_error(error).text) from error
                yield self._skipped(place, file_error(error).title.lower())
                continue
            for name in names:
                found = self._entry(place / name)
                if isinstance(found, Path):
                    folders.append(found)
                elif found is not None:
                    yield found
            waiting.extend(reversed(folders))

    def _entry(self, path: Path) -> FoundFile | SkippedFile | Path | None:
        """A file, what is left out, or a folder to look into; None: gone meanwhile, or seen."""
        try:
            status = path.lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._skipped(path, file_error(error).title.lower())
        if stat.S_ISLNK(status.st_mode) or _is_junction(path):
            return self._link(path)
        if stat.S_ISDIR(status.st_mode):
            return self._subfolder(path, status)
        if not stat.S_ISREG(status.st_mode):
            return self._skipped(path, "not a regular file")
        if reason := file_reason(path.name):
            return self._skipped(path, reason)
        if other := self._seen.get(_inode(status)):
            return self._skipped(path, f"the same file as {single_line(other)}")
        relative = self._relative(path)
        self._seen[_inode(status)] = relative
        return found_from(path, relative, status)

    def _subfolder(self, path: Path, status: os.stat_result) -> SkippedFile | Path:
        inode = _inode(status)
        if inode in self._ours:
            return self._skipped(path, "localchat's own folder")
        if reason := folder_reason(path):
            return self._skipped(path, reason)
        if inode in self._seen:
            return self._skipped(path, f"the same folder as {single_line(self._seen[inode])}")
        self._seen[inode] = self._relative(path)
        return path

    def _link(self, path: Path) -> SkippedFile | None:
        """What it leads to inside the folder is found where it lies."""
        try:
            target = os.path.realpath(path, strict=True)
        except OSError:
            return self._skipped(path, "a link that leads nowhere")
        if Path(target).is_relative_to(self._real_root):
            return None
        return self._skipped(path, "a link out of the folder")

    def _skipped(self, path: Path, reason: str) -> SkippedFile:
        return SkippedFile(path, self._relative(path), reason)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _root_status(root: Path) -> os.stat_result:
    try:
        status = root.stat()
    except OSError as error:
        raise _missing(root, file_error(error).text) from error
    if not stat.S_ISDIR(status.st_mode):
        raise _missing(root, "A file is where the folder was.")
    return status


def _missing(root: Path, why: str) -> RootMissing:
    return RootMissing(
        f"The folder {single_line(os.fspath(root))} cannot be read.",
        why,
        "Connect its disk, or check the path; what was indexed is kept.",
    )


def _folded(number: int) -> int:
    """Different numbers of 64 bits stay different."""
    return (number + LARGEST + 1) % (2 * LARGEST + 2) - LARGEST - 1


def _nearest(number: int) -> int:
    return max(-LARGEST - 1, min(number, LARGEST))


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def _inodes(folders: Collection[Path]) -> Iterator[Inode]:
    for folder in folders:
        try:
            yield _inode(folder.stat())
        except OSError:
            pass  # It is not there, so it cannot be met.


def _is_junction(path: Path) -> bool:
    """Windows' other kind of link to a folder."""
    return os.name == "nt" and os.path.realpath(path) != os.path.abspath(path)
