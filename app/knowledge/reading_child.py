"""Reads documents in a process of its own, which can be killed: files come from anywhere.

`ReadingChild` is the client, `python -m app.knowledge.reading` the process. It is given limits of
time, memory and output; a file that kills it or hangs costs that file only. It inherits no handle
but its two pipes, and none of the environment's settings.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from app.knowledge.document import Document, Unreadable
from app.knowledge.reading.frames import Answer, BrokenFrame, Request, read_answer, write_frame
from app.knowledge.reading.limits import Limits

FILE_SECONDS = 30.0
"""For a file, and again for each of its pages that comes after a page."""
LONGEST_SECONDS = 600.0
"""For a file of any number of pages."""
MEMORY_BYTES = 1024 * 1024 * 1024
START_SECONDS = 30.0
"""Python starts in 0.2 s; a machine that swaps needs longer."""
LOOK_SECONDS = 0.2
"""How often it is looked whether the file is still wanted."""
KEPT_SETTINGS = (
    *("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "LANG", "LC_ALL", "LD_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"),
)
"""What Python may need to start; nothing of these names our folders."""


class ReadingStopped(Exception):
    """The caller wants no more."""


class ReadingChild:
    """One process at a time, started with the first file. Calls from several threads wait."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        seconds: float = FILE_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._limits = limits or Limits()
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._environment = {
            name: environment[name] for name in KEPT_SETTINGS if name in environment
        }
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()

    def read(
        self,
        path: Path,
        *,
        root: Path | None = None,
        progress: Callable[[int, int], bool | None] | None = None,
    ) -> Document | Unreadable:
        """The file's document, or why it has none; never an error of the file's making.

        `root`: the folder that the file must lie in after all links are resolved.
        `progress` is called with the pages read and of all (0, 0 before the first), some times a
        second; when it returns False the process is killed. Raises ReadingStopped then.
        """
        request = Request(
            os.fsencode(path), os.fsencode(root) if root is not None else None, self._limits
        )
        with self._lock:
            return self._exchange(request, progress or _no_progress)

    def close(self) -> None:
        """From any thread: a file that is being read ends as skipped."""
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._stop()

    @property
    def pid(self) -> int | None:
        """Of the running process; None before the first file and after one that killed it."""
        return self._process.pid if self._process else None

    def _exchange(
        self, request: Request, progress: Callable[[int, int], bool | None]
    ) -> Document | Unreadable:
        process = self._running()
        try:
            assert process.stdin is not None
            write_frame(process.stdin, request)
        except OSError:
            pass  # It has ended; seen where its answer is awaited.
        try:
            answer = self._awaited(progress)
        except BaseException:
            self._stop()
            raise
        if answer.document is None:
            return answer.unreadable or Unreadable("skipped: damaged")
        return answer.document

    def _awaited(self, progress: Callable[[int, int], bool | None]) -> Answer:
        """The last answer; the process is gone when the file killed it."""
        begun = time.monotonic()
        end = begun + self._seconds
        pages = (0, 0)
        while True:
            if progress(*pages) is False:
                raise ReadingStopped
            try:
                answer = self._answers.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if time.monotonic() < end:
                    continue
                self._stop()
                seconds = time.monotonic() - begun
                return Answer(unreadable=Unreadable(f"skipped: stopped after {seconds:.0f} s"))
            if answer is None:
                self._stop()
                return Answer(unreadable=Unreadable("skipped: it ended the process that reads it"))
            if answer.progress is None:
                return answer
            pages = answer.progress
            end = min(time.monotonic() + self._seconds, begun + LONGEST_SECONDS)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = self._start()
        return self._process

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: the folder that the person works in may hold a package called `app`.
        arguments = (str(self._memory_bytes), str(2 * self._seconds))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "app.knowledge.reading", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
            start_new_session=True,  # ctrl+c in our terminal is ours
        )
        self._answers = queue.SimpleQueue()
        threading.Thread(target=_receive, args=(process.stdout, self._answers), daemon=True).start()
        return process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            _close(stream)


def _no_progress(done: int, total: int) -> None:
    return None


def _receive(stream: IO[bytes] | None, answers: queue.SimpleQueue[Answer | None]) -> None:
    """Answers of the process, then None when it ends."""
    assert stream is not None
    try:
        while True:
            answers.put(read_answer(stream))
    except (BrokenFrame, OSError, ValueError):
        pass  # It ended, or was closed from our side.
    answers.put(None)


def _close(stream: IO[bytes] | None) -> None:
    try:
        if stream is not None:
            stream.close()
    except OSError:
        pass  # Unwritten bytes of a dead process.
