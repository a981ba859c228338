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
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from app.knowledge.child_environment import child_environment
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
AHEAD_FILES, AHEAD_BYTES = 16, 1_000_000
"""So much is asked for ahead of what is answered: the process never waits."""
PIPE_BYTES, REQUEST_BYTES = 4_000, 150
"""Of requests in the pipe, and of one without its paths: a full pipe would make us wait for a
process that hangs, without a limit.
"""

DEATHS = 2
"""Of the process, until a file is to blame: other programs end processes too."""


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file to be read."""

    path: Path
    root: Path | None = None
    """The folder that it must lie in after all links are resolved."""
    size: int = 0
    """Bytes, as far as known; large files are not asked for ahead."""


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
        self._environment = child_environment(environment)
        self._lock = threading.Lock()
        self._is_closing = False
        self._is_starting = False
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
        (result,) = self.read_all([WantedFile(path, root)], progress=progress)
        return result

    def read_all(
        self,
        files: Iterable[WantedFile],
        *,
        progress: Callable[[int, int], bool | None] | None = None,
    ) -> Generator[Document | Unreadable, None, None]:
        """As `read`, for each file in their order; the next ones are taken from `files` and asked
        for before an answer is there. Others wait until it is at its end or closed.
        """
        source = iter(files)
        waiting: deque[WantedFile] = deque()
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._stop()  # It ended while nothing was read: no file's fault.
            try:
                while self._ask_ahead(source, waiting):
                    answer = self._answer(waiting, progress or _no_progress)
                    waiting.popleft()
                    yield answer.document or answer.unreadable or Unreadable("skipped: damaged")
            finally:
                if waiting:
                    self._stop()

    def close(self) -> None:
        """From any thread: a file that is being read ends as skipped."""
        self._is_closing = True
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._stop()
            self._is_closing = False

    @property
    def pid(self) -> int | None:
        """Of the running process; None before the first file and after one that killed it."""
        return self._process.pid if self._process else None

    def _ask_ahead(self, source: Iterator[WantedFile], waiting: deque[WantedFile]) -> bool:
        """Asks for as much as may be ahead; False when there is nothing left to wait for."""
        while has_room(waiting):
            if (file := next(source, None)) is None:
                break
            waiting.append(file)
            if self._process is not None:
                self._ask(file)
        return bool(waiting)

    def _ask(self, file: WantedFile) -> None:
        root = os.fsencode(file.root) if file.root is not None else None
        process = self._running()
        try:
            assert process.stdin is not None
            write_frame(process.stdin, Request(os.fsencode(file.path), root, self._limits))
        except OSError:
            pass  # It has ended; seen where its answer is awaited.

    def _answer(
        self, waiting: deque[WantedFile], progress: Callable[[int, int], bool | None]
    ) -> Answer:
        """To the first that waits. When the process ends meanwhile, all are asked for again: only a
        file that ends it twice is to blame.
        """
        for _ in range(DEATHS):
            if self._process is None:
                for file in waiting:
                    self._ask(file)
            if (answer := self._awaited(progress)) is not None:
                return answer
            if self._is_closing:
                break
        return Answer(unreadable=Unreadable("skipped: it ended the process that reads it"))

    def _awaited(self, progress: Callable[[int, int], bool | None]) -> Answer | None:
        """The last answer of a file; None: the process is gone."""
        begun = time.monotonic()
        end = begun + (START_SECONDS if self._is_starting else self._seconds)
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
            self._is_starting = False
            if answer is None:
                self._stop()
                return None
            if answer.progress is None:
                return answer
            pages = answer.progress
            end = min(time.monotonic() + self._seconds, begun + LONGEST_SECONDS)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
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
        self._is_starting = True
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


def has_room(waiting: Collection[WantedFile]) -> bool:
    """Whether one more may be asked for."""
    requests = sum(REQUEST_BYTES + len(os.fsencode(f"{file.path}{file.root}")) for file in waiting)
    size = sum(file.size for file in waiting)
    return len(waiting) < AHEAD_FILES and size < AHEAD_BYTES and requests < PIPE_BYTES


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
