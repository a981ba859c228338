"""Compares a root with what the index knows of it. It reads no file: that is the sync's part."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.knowledge.catalogue import RULES, FileRecord
from app.knowledge.file_bytes import is_doubtful
from app.knowledge.folder_walk import (
    FoundFile,
    RootMissing,
    SkippedFile,
    found_from,
    root_device,
    walk,
)
from app.knowledge.states import SKIPPED

TELL_FILES = 500
SLASH = ord("/")


@dataclass(slots=True)
class Scan:
    """What a walk through one root found."""

    known: dict[bytes, FileRecord]
    """The files as the index had them, by path relative to the root."""
    to_read: list[FoundFile] = field(default_factory=list)
    """New, changed, or in doubt."""
    left_out: list[FileRecord] = field(default_factory=list)
    """Files and folders that are not read, where the index does not say so yet."""
    gone: list[bytes] = field(default_factory=list)
    """Files that are there no more."""
    unchanged: int = 0
    is_missing: bool = False
    """The root is not there: what the index knows of it stays."""
    device: int | None = None


def scan(
    root: Path,
    known: dict[bytes, FileRecord],
    device: int | None,
    ours: tuple[Path, ...],
    tell: Callable[[], None],
) -> Scan:
    """`device`: that the root lay on last time. `ours`: folders that hold no documents. `tell` is
    called now and then; what it raises ends the scan.
    """
    result = Scan(known)
    seen: set[bytes] = set()
    closed: set[bytes] = set()
    try:
        # Before the walk: a disk that goes right after it is not taken for what lies there then.
        now = root_device(root if os.path.isdir(root) else file_of(root).parent)
        for found in found_below(root, b"" in known, device, ours):
            relative = os.fsencode(found.relative)
            seen.add(relative)
            if len(seen) % TELL_FILES == 0:
                tell()
            before = known.get(relative)
            if isinstance(found, SkippedFile):
                if is_closed(found.path):
                    closed.add(relative)
                if before is None or before.state != SKIPPED + found.reason:
                    result.left_out.append(record_left_out(found))
                else:
                    result.unchanged += 1
            elif before is not None and is_unchanged(found, before):
                result.unchanged += 1
            else:
                result.to_read.append(found)
        result.device = now
    except RootMissing:
        result.is_missing = True
        return result
    for relative in known.keys() - seen:
        is_nested = known[relative].device not in (0, device)
        if is_below(relative, closed) or (is_nested and is_unmounted(root, relative, now)):
            result.unchanged += 1
        else:
            result.gone.append(relative)
    return result


def found_below(
    root: Path, was_file: bool, device: int | None, ours: tuple[Path, ...]
) -> Iterator[FoundFile | SkippedFile]:
    """The files of a folder, or the one file that a root may be as well. Raises RootMissing."""
    if os.path.isfile(root):
        try:
            yield found_from(file_of(root), "", root.stat())
        except OSError:
            yield from walk(root)  # Gone this moment: it tells in words.
    elif not (was_file and is_deleted(file_of(root), device)):
        yield from walk(root, device=device, ours=ours)


def file_of(root: Path) -> Path:
    """A root may be a link to a file; files are opened without following links."""
    return Path(os.path.realpath(root))


def is_deleted(file: Path, device: int | None) -> bool:
    """Whether it is gone and the disk that it lay on is there."""
    try:
        file.lstat()
    except FileNotFoundError:
        return os.path.isdir(file.parent) and device in (None, root_device(file.parent))
    except OSError:
        return False
    return False


def is_unchanged(found: FoundFile, before: FileRecord) -> bool:
    """Whether its status says that the index has read it as it is now, by the rules of today."""
    same = (before.size, before.mtime_ns, before.ctime_ns, before.inode) == (
        *(found.size, found.mtime_ns, found.ctime_ns, found.inode[1]),
    )
    return same and before.rules == RULES and not is_doubtful(found, before.hashed_ns)


def record_left_out(found: SkippedFile) -> FileRecord:
    return FileRecord(
        relative=os.fsencode(found.relative),
        size=0,
        mtime_ns=0,
        ctime_ns=0,
        device=0,
        inode=0,
        hashed_ns=0,
        hash=None,
        rules=RULES,
        state=SKIPPED + found.reason,
    )


def is_closed(path: Path) -> bool:
    """Whether it is a folder that the system does not let us look into now."""
    try:
        if path.is_symlink():
            return False
        os.scandir(path).close()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return False


def is_below(relative: bytes, folders: set[bytes]) -> bool:
    """Whether it lies in one of the folders."""
    places = [place for place, letter in enumerate(relative) if letter == SLASH]
    return any(relative[:place] in folders for place in places)


def is_unmounted(root: Path, relative: bytes, device: int) -> bool:
    """Whether a file that lay on a disk of its own below the root is gone with that disk: the
    place where it was is on the root's `device` now.
    """
    place = root / os.fsdecode(relative)
    for folder in place.parents:
        try:
            return root_device(folder) == device
        except RootMissing:
            continue
    return False


def record(
    found: FoundFile,
    hashed_ns: int,
    digest: bytes | None,
    state: str,
    content_id: int | None = None,
) -> FileRecord:
    """A file that was read, as the index keeps it."""
    return FileRecord(
        relative=os.fsencode(found.relative),
        size=found.size,
        mtime_ns=found.mtime_ns,
        ctime_ns=found.ctime_ns,
        device=found.inode[0],
        inode=found.inode[1],
        hashed_ns=hashed_ns,
        hash=digest,
        rules=RULES,
        state=state,
        content_id=content_id,
    )
