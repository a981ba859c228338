"""A small parent that gives the terminal back whatever happens to the program in front of it.

The child runs the front end; the parent waits, passes signals on, and after an unclean end (crash,
kill) writes the reset sequences and the old line settings. If the parent dies first, the child is
told and ends by itself. It must stay light: no import of Textual here, and it does not know what
the child does.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from app.sanitize import single_line

RESET = (
    "\x1b[<u"  # keyboard protocol; before leaving the alternate screen, which has its own
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    "\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?2048l"  # focus, paste, sync, resize
    "\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"  # wrap, main screen, cursor, colours
)

GRACE_S = 5
"""How long a child that was asked to end may take to save and leave."""

CRASHED = 70
"""Status of a front end that raised, or that ended itself by a defect and has logged it."""

FORWARDED = ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT")


def run_guarded(front_end: Callable[[], int], log: Path | None = None) -> int:
    """Runs `front_end` in a child and returns its exit status; 128 + n where signal n ended it.

    Without a terminal, or on a system without fork, it runs here and nothing is guarded.
    """
    if not hasattr(os, "fork") or not sys.stdin.isatty():
        status = front_end()
        if status == CRASHED:
            tell_crash(log)
        return status
    settings = line_settings()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        run_child(front_end, parent, log)
    status = wait(pid)
    if status >= 128 or status == CRASHED:
        restore(settings)
    if status == CRASHED:
        tell_crash(log)
    return status


def run_child(front_end: Callable[[], int], parent: int, log: Path | None) -> None:
    """Never returns. A traceback goes to the log, never to the screen."""
    status = CRASHED
    try:
        die_with(parent)
        status = front_end()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        write_crash(log, traceback.format_exc())
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(status)


def die_with(parent: int) -> None:
    """On Linux the kernel sends SIGTERM to the child when its parent is gone."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(CRASHED)


def write_crash(log: Path | None, text: str) -> None:
    if log is None:
        return
    try:
        with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as file:
            file.write(text)
    except OSError:
        pass  # a full or missing disk must not keep the terminal from being restored


def tell_crash(log: Path | None) -> None:
    """One sentence on the restored terminal; the rest may hold texts of chats and is in the log."""
    where = f" The log says where: {single_line(str(log))}" if log is not None else ""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"localchat ended by a defect of its own.{where}\n")
        sys.stderr.flush()


def wait(pid: int) -> int:
    """Exit status of the child; meanwhile signals are passed on, and a stop of the child stops us
    too.
    """
    asked = forward_signals(pid)
    try:
        while True:
            _, status = os.waitpid(pid, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                os.kill(os.getpid(), signal.SIGSTOP)
                continue
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    finally:
        signal.alarm(0)
        for number, handler in asked.items():
            signal.signal(number, handler)


def forward_signals(pid: int) -> dict[int, Any]:
    """Installs handlers that pass ends on to the child, and kill it when it does not follow."""

    def forward(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if number != signal.SIGINT:
            signal.alarm(GRACE_S)

    def kill(_number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    before: dict[int, Any] = {}
    for name in FORWARDED:
        number = getattr(signal, name)
        before[number] = signal.signal(number, forward)
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, kill)
    return before


def line_settings() -> Any:
    import termios

    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def restore(settings: Any) -> None:
    """Writes the reset sequences and the line settings that were found at the start."""
    import termios

    with suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), RESET.encode())
    if settings is not None:
        with suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, settings)
