"""Starts the worker's process: two one-way pipes, a log file as its screen, a session of its own.

Knows processes and nothing of messages. The pipes' ends are the only handles the child inherits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine.pipe import Receiver, Sender

LOG_LIMIT_BYTES = 4_000_000
"""A log longer than this is set aside as `NAME.old` before the next start."""


class WorkerProcess:
    """One life of a worker. `log_start` is the place in the log file where its lines begin."""

    def __init__(
        self, command: Sequence[str], log_path: Path, environment: Mapping[str, str]
    ) -> None:
        """Raises OSError when the program or the log file cannot be opened.

        The calling thread must live as long as the child: Linux tells a child of its parent's death
        when the *thread* that started it ends.
        """
        log_fd = _open_log(log_path)
        child_reads, we_write = Pipe(duplex=False)
        we_read, child_writes = Pipe(duplex=False)
        try:
            self.log_start = os.fstat(log_fd).st_size
            self._process = _spawn(command, (child_reads, child_writes), log_fd, environment)
        except BaseException:
            we_write.close()
            we_read.close()
            raise
        finally:
            os.close(log_fd)
            child_reads.close()
            child_writes.close()
        self.sender = Sender(we_write)
        self.receiver = Receiver(we_read)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout: float) -> int | None:
        """The exit status (negative: the signal's number), None while it still runs."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Ends the process and what it started, at once."""
        if not self.alive:
            return
        if sys.platform == "win32":
            self._process.kill()
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # gone, or not yet the head of its group
            self._process.kill()

    def close(self) -> None:
        """Our ends of the pipes; the worker ends when it sees that."""
        self.sender.close()
        self.receiver.close()


def _open_log(path: Path) -> int:
    if path.exists() and path.stat().st_size > LOG_LIMIT_BYTES:
        path.replace(path.with_name(path.name + ".old"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _spawn(
    command: Sequence[str],
    ends: tuple[Connection, Connection],
    log_fd: int,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    handles = [end.fileno() for end in ends]
    return subprocess.Popen(
        [*command, *map(str, handles)],
        stdin=subprocess.DEVNULL,
        stdout=log_fd,
        stderr=log_fd,
        env=dict(environment),
        **_apart(handles),
    )


def _apart(handles: list[int]) -> dict[str, Any]:
    """What lets a child inherit just these handles, and no signal of our terminal."""
    if sys.platform == "win32":
        for handle in handles:
            os.set_handle_inheritable(handle, True)
        return {
            "startupinfo": subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles}),
            "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP,
        }
    return {"pass_fds": handles, "start_new_session": True}
