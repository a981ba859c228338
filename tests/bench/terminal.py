"""`localchat` itself in a pseudo-terminal of 80x24, for measuring.

What it writes is kept as bytes and never drawn: an emulator in Python would take a core of its own.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.app.program import COMMAND, environment

READY = b"Everything stays on this machine."
PATIENCE_S = 180.0
_LOOK_S = 0.1


class Terminal:
    """Times are of `time.perf_counter`."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment(home), "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._changed = threading.Condition()
        self.written = bytearray()
        self.written_at = self.started
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65_536)
            except OSError:
                return
            with self._changed:
                self.written += data
                self.written_at = time.perf_counter()
                self._changed.notify_all()

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, condition: Callable[[], object]) -> float:
        """Seconds until the condition held; looks when something was written: looking all the time
        would take a core from the program.
        """
        started = time.perf_counter()
        with self._changed:
            while not condition():
                if time.perf_counter() - started > PATIENCE_S:
                    raise TimeoutError(bytes(self.written[-2000:]))
                self._changed.wait(_LOOK_S)
        return time.perf_counter() - started

    def until_shown(self, text: bytes) -> float:
        """Seconds from the start of the program until it wrote `text`."""
        self.until(lambda: text in self.written)
        return self.written_at - self.started

    def until_quiet(self, seconds: float) -> None:
        """Until nothing was written for so long, from now on."""
        called = time.perf_counter()
        self.until(lambda: time.perf_counter() - max(called, self.written_at) > seconds)

    def ended(self) -> int:
        """The program's exit status, once it has ended and all that it wrote is here."""
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    @property
    def worker(self) -> psutil.Process | None:
        for process in psutil.Process(self.process.pid).children(recursive=True):
            if "engine.worker" in process.cmdline():
                return process
        return None

    @property
    def front_end(self) -> list[psutil.Process]:
        """The guarding process and the screen; not the worker, nor what belongs to it."""
        parent = psutil.Process(self.process.pid)
        screens = [one for one in parent.children() if "engine.worker" not in one.cmdline()]
        return [parent, *screens]

    def front_end_s(self) -> float:
        """Processor seconds of the front end so far."""
        times = [process.cpu_times() for process in self.front_end]
        return sum(one.user + one.system for one in times)

    def close(self) -> None:
        if self.process.poll() is None:
            self.type("\x11")
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self._master)


@contextmanager
def opened(home: Path, *arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(home, *arguments)
    try:
        terminal.until_shown(READY)
        yield terminal
    finally:
        terminal.close()
