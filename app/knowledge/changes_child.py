"""The process that the system tells of changes below folders:
`python -P -m app.knowledge.changes_child`. It ends with its input, and when the folders are others.

    in     one JSON line: a job
    out    JSON lines, one a look: {"changed": true or false}, or {"error": text} at the end

It is one of its own since the library stops all threads of its process while it begins to watch:
a large tree takes it seconds.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from app.knowledge.left_out import folder_reason

if TYPE_CHECKING:
    from watchfiles import Change

DEBOUNCE_MS, STEP_MS = 400, 50
"""Changes that follow each other closely are one hint, which comes after a pause of a step."""
TELLS_OF_TREES = sys.platform in ("darwin", "win32")
"""Elsewhere each folder is watched by itself: the library would follow links, out of the tree and
round in it, which takes for ever where some folders hold links to each other.
"""


@dataclass(frozen=True, slots=True)
class Job:
    folders: Sequence[str]
    """Or files."""
    ours: Sequence[str]
    """Real paths of folders whose changes mean nothing."""
    look_s: float
    """How often it is looked whether the folders are still the same ones."""
    renew_s: float
    """Watching begins anew that often."""


def main(reading: IO[bytes], writing: IO[bytes]) -> int:
    """The status to end with."""
    job = Job(**json.loads(reading.readline()))
    threading.Thread(target=_read, args=(reading,), daemon=True).start()
    begun = places(job.folders)
    try:
        while places(job.folders) == begun:
            for is_changed in looks(job):
                _tell(writing, {"changed": is_changed})
                if places(job.folders) != begun:
                    break
    except Exception as error:  # the library raises what the system says, in kinds of its own
        if places(job.folders) == begun:
            _tell(writing, {"error": str(error)})
            return 1
    return 0


def looks(job: Job) -> Iterator[bool]:
    """Whether something has changed since the last look, first of all for what changed before the
    system began to tell. Ends where it would not be told of everything any more.
    """
    from watchfiles import watch

    roots = [os.path.realpath(folder) for folder in job.folders]
    stamps, is_told = {root: changed_at(root) for root in roots}, False
    watched = roots if TELLS_OF_TREES else folders_below(roots, job.ours)
    end = time.monotonic() + job.renew_s
    ours = tuple(folder + os.sep for folder in job.ours)
    for changes in watch(
        *watched,
        watch_filter=lambda change, path: not (path + os.sep).startswith(ours),
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=int(1000 * job.look_s),
        yield_on_timeout=True,
        force_polling=False,
        recursive=TELLS_OF_TREES,
        ignore_permission_denied=True,
    ):
        yield bool(changes) or not is_told
        if is_incomplete(changes, roots) or time.monotonic() > end:
            return
        if not is_told:
            told = {name for _, path in changes for name in (path, os.path.dirname(path))}
            if any(may_be_unwatched(root, stamps[root], told) for root in roots):
                return
            if not TELLS_OF_TREES and set(folders_below(roots, job.ours)) - set(watched):
                return  # New before its parent was watched.
        is_told = True


def is_incomplete(changes: Iterable[tuple[Change, str]], roots: Sequence[str]) -> bool:
    """Whether there may be folders now that are not watched: a new one, or another one in the place
    of a root that is gone.
    """
    from watchfiles import Change

    for kind, path in changes:
        if path in roots and kind is Change.deleted:
            return True
        if not TELLS_OF_TREES and kind is not Change.deleted and is_folder(path):
            return True
    return False


def may_be_unwatched(root: str, before: int | None, told: Container[str]) -> bool:
    """Whether it was away, as far as one knows, when it was to be watched: it has changed since
    `before`, and the system has `told` nothing of that.
    """
    now = changed_at(root)
    return before is None or now is None or (now != before and root not in told)


def folders_below(roots: Iterable[str], ours: Sequence[str]) -> list[str]:
    """The roots and all folders in them that may hold documents; no links are followed."""
    found: list[str] = []
    waiting = list(roots)
    while waiting:
        place = waiting.pop()
        found.append(place)
        try:
            with os.scandir(place) as entries:
                inner = [each for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # A file, gone, or closed to us.
        waiting += [
            each.path
            for each in inner
            if each.path not in ours and not folder_reason(Path(each.name))
        ]
    return found


def places(folders: Sequence[str]) -> list[object]:
    """Which folders they are, and what is mounted in them: of that the system does not tell."""
    import psutil

    roots = [os.path.realpath(folder) for folder in folders]
    try:
        disks = psutil.disk_partitions(all=True)
    except (OSError, RuntimeError):
        disks = []
    mounted = [
        (disk.device, disk.mountpoint, disk.fstype)
        for disk in disks
        if any(disk.mountpoint.startswith(root + os.sep) for root in roots)
    ]
    return [*roots, *map(identity, roots), *mounted]


def identity(folder: str) -> tuple[int, int] | None:
    """Device and number; None: it is not there."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def changed_at(folder: str) -> int | None:
    """Nanoseconds: when it was made, renamed, or got or lost an entry. None: it is not there."""
    try:
        return os.stat(folder).st_ctime_ns
    except OSError:
        return None


def is_folder(path: str) -> bool:
    """And no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _read(reading: IO[bytes]) -> None:
    """Ends the process with its input, also in the middle of a native call."""
    reading.read()
    os._exit(0)


def _tell(writing: IO[bytes], message: dict[str, Any]) -> None:
    writing.write(json.dumps(message).encode("ascii") + b"\n")
    writing.flush()


if __name__ == "__main__":
    # At once: Python would abort over the thread that reads.
    os._exit(main(sys.stdin.buffer, sys.stdout.buffer))
