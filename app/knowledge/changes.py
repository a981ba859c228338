"""Waits for changes below folders: told by the system where it can, else by looking now and then.

What is told is a hint: something changed. It knows nothing of knowledge bases.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

LOOK_SECONDS = 1.0
"""How often it is looked whether the folders are still the same ones."""
RENEW_SECONDS = 300.0
"""Watching begins anew that often: the system leaves things out when too much happens at once, and
does not say that a disk was taken out and put back between two looks.
"""
POLL_SECONDS = 1.5
"""Between two hints where the system does not tell."""
FAILURES = 5
"""In a row, each soon after the one before, show that the system cannot tell."""
SOON_SECONDS = 10.0
DEBOUNCE_MS, STEP_MS = 400, 50
"""Changes that follow each other closely are one hint, which comes after a pause of a step."""

REMOTE_KINDS = """
nfs nfs4 cifs smb smb2 smb3 smbfs afpfs 9p fuse.sshfs sshfs fuse.rclone davfs fuse.davfs2 webdav
ceph glusterfs fuse.glusterfs afs lustre vboxsf prl_fs
"""
REMOTE = frozenset(REMOTE_KINDS.split())
"""File systems that other machines write to: the system tells of our own changes only."""


class Changes:
    """Calls `hint` in its own thread, for each change and once at the start of each way of
    watching.
    """

    def __init__(
        self,
        folders: Callable[[], Sequence[Path]],
        ours: Sequence[Path],
        hint: Callable[[], None],
        notice: Callable[[str], None],
    ) -> None:
        """`folders` is asked again and again. `ours`: folders whose changes mean nothing."""
        self._folders = folders
        self._ours = tuple(os.path.realpath(path) + os.sep for path in ours)
        self._hint = hint
        self._notice = notice
        self._stop = threading.Event()
        self._failed: list[float] = []
        """When watching failed, as far as that was lately."""
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            places = self._places()
            there = [folder for folder, found in places.items() if found is not None]
            self._hint()
            if len(self._failed) >= FAILURES or any(is_remote(folder) for folder in there):
                self._stop.wait(POLL_SECONDS)
            elif there:
                self._watch(there, places)
            else:
                self._stop.wait(LOOK_SECONDS)

    def _places(self) -> dict[Path, tuple[int, int] | None]:
        """The folders, and which ones they are."""
        return {folder: identity(folder) for folder in self._folders()}

    def _watch(self, folders: list[Path], places: dict[Path, tuple[int, int] | None]) -> None:
        """Until the folders are others, or something could not be told."""
        from watchfiles import Change, watch

        roots = {str(folder) for folder in folders} | set(map(os.path.realpath, folders))
        stamps, is_told = [changed_at(folder) for folder in folders], False
        end = time.monotonic() + RENEW_SECONDS
        try:
            for changes in watch(
                *folders,
                watch_filter=lambda change, path: not self._is_ours(path),
                debounce=DEBOUNCE_MS,
                step=STEP_MS,
                stop_event=self._stop,
                rust_timeout=int(1000 * LOOK_SECONDS),
                yield_on_timeout=True,
                raise_interrupt=False,
                force_polling=False,
                ignore_permission_denied=True,
            ):
                if changes or not is_told:
                    self._hint()  # Also for what changed before the system began to tell.
                if self._places() != places or time.monotonic() > end:
                    return
                if any(path in roots and kind is Change.deleted for kind, path in changes):
                    return  # Another one may be there already, with the same number.
                if not is_told and [changed_at(folder) for folder in folders] != stamps:
                    # Went away and came back while watching began? Then nothing may be watched.
                    self._stop.wait(LOOK_SECONDS)
                    return
                is_told = True
        except Exception as error:  # the library raises what the system says, in kinds of its own
            if self._places() == places and not self._stop.is_set():
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """A name that is no text ends the library's watching: it is begun again. What fails again
        and again is given up.
        """
        now = time.monotonic()
        self._failed = [*(then for then in self._failed if now - then < SOON_SECONDS), now]
        if len(self._failed) >= FAILURES:
            self._notice(f"Changes are looked for instead of being told: {error}")
        else:
            self._stop.wait(LOOK_SECONDS)

    def _is_ours(self, path: str) -> bool:
        return (path + os.sep).startswith(self._ours)


def identity(folder: Path) -> tuple[int, int] | None:
    """Device and number; None: it is not there."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def changed_at(folder: Path) -> int | None:
    """Nanoseconds; a folder that was renamed or got or lost an entry has another one. None: it is
    not there.
    """
    try:
        return folder.stat().st_ctime_ns
    except OSError:
        return None


def is_remote(folder: Path) -> bool:
    """Whether the folder lies on a file system of the network, as far as the system says."""
    import psutil

    try:
        disks = psutil.disk_partitions(all=True)
    except (OSError, RuntimeError):
        return False
    place = os.path.realpath(folder)
    above = [disk for disk in disks if is_inside(place, disk.mountpoint)]
    nearest = max(above, key=lambda disk: len(disk.mountpoint), default=None)
    return nearest is not None and nearest.fstype.lower() in REMOTE


def is_inside(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip(os.sep) + os.sep)
