"""Waits for changes below folders: told by the system where it can, else by looking now and then.

What is told is a hint: something changed. It knows nothing of knowledge bases. The system tells a
process of its own, see `changes_child.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from app.knowledge.changes_child import Job
from app.knowledge.child_environment import child_environment
from app.knowledge.process_end import ending

COMMAND = (sys.executable, "-P", "-m", "app.knowledge.changes_child")
"""-P: a folder named `app` where the person stands is not ours."""
LOOK_SECONDS = 0.5
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
ENDED = "the process that is told has ended"

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
        command: Sequence[str] = COMMAND,
    ) -> None:
        """`folders` is asked again and again. `ours`: folders whose changes mean nothing."""
        self._folders = folders
        self._ours = [os.path.realpath(path) for path in ours]
        self._hint = hint
        self._notice = notice
        self._command = tuple(command)
        self._stop = threading.Event()
        self._failed: list[float] = []
        """When watching failed, as far as that was lately."""
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        with self._starting:
            if self._process is not None:
                self._process.kill()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            folders = self._there()
            self._hint()
            if len(self._failed) >= FAILURES or any(map(is_remote, folders)):
                self._stop.wait(POLL_SECONDS)
            elif folders:
                self._listen(folders)
            else:
                self._stop.wait(LOOK_SECONDS)

    def _there(self) -> list[Path]:
        return [folder for folder in self._folders() if os.path.exists(folder)]

    def _listen(self, folders: list[Path]) -> None:
        """Until the folders are others, or something could not be told."""
        try:
            process = self._begin()
        except OSError as error:
            return self._fail(str(error))
        if process is None:
            return
        names = [os.fspath(folder) for folder in folders]
        job = Job(names, self._ours, LOOK_SECONDS, RENEW_SECONDS)
        with ending(process) as (sending, receiving):
            is_told = False
            try:
                sending.write(json.dumps(asdict(job)).encode("ascii") + b"\n")
                sending.flush()
                for line in receiving:
                    told = json.loads(line)
                    if "error" in told:
                        return self._fail(told["error"])
                    if told["changed"]:
                        self._hint()
                    if self._there() != folders:
                        return
                    is_told = True
            except (OSError, ValueError):
                return self._fail(ENDED)
            if process.wait() != 0:
                self._fail(ENDED)
            elif not is_told:
                self._stop.wait(LOOK_SECONDS)  # The folders are coming or going.

    def _begin(self) -> subprocess.Popen[bytes] | None:
        """The process; None: none is wanted any more. Raises OSError."""
        with self._starting:
            if self._stop.is_set():
                return None
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=child_environment(os.environ),
            )
            return self._process

    def _fail(self, why: str) -> None:
        """A name that is no text ends the library's watching: it is begun again. What fails again
        and again is given up.
        """
        if self._stop.is_set():
            return
        now = time.monotonic()
        self._failed = [*(then for then in self._failed if now - then < SOON_SECONDS), now]
        if len(self._failed) >= FAILURES:
            self._notice(f"Changes are looked for instead of being told: {why}")
        else:
            self._stop.wait(LOOK_SECONDS)


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
