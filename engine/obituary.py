"""What is known of a worker's end: exit signal or status, memory before, its last log lines.

States what was seen and guesses nothing: signal 9 has many senders. Several workers may share a log
file; only lines of the one that ended are quoted.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.events import ErrorInfo
from engine.messages import State
from models.sizes import show_text

_TAIL_BYTES = 64_000
_TAIL_LINES = 8
_LINE_CHARACTERS = 200
_DUMP, _CRASHED = "Fatal Python error", "Current thread"
_DUMP_FRAMES = 3
_OF_PROCESS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (\d+) ")
"""How a logged line begins, see `engine/worker/process.py`; native ones have no such head."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """What one process has logged: its lines at or after byte `start`."""

    path: Path
    start: int
    pid: int


def obituary(status: int | None, wanted: bool, state: State | None, log: LogPart) -> ErrorInfo:
    """`status`: as of `Popen.returncode`, None when the process had to be ended by force.

    `wanted`: somebody asked the worker to end.
    """
    if wanted:
        return ErrorInfo("interrupted", "The engine was closed.", _how(status))
    parts = [_how(status), _memory(state), _last_words(log)]
    return ErrorInfo(
        "failed",
        "The engine stopped in the middle of its work.",
        "\n".join(part for part in parts if part),
        f"Send the message again: the engine starts anew. The log is {show_text(str(log.path))}.",
    )


def _how(status: int | None) -> str:
    if status is None:
        return "It closed its pipe and did not end, and was ended by force."
    if status >= 0:
        return f"It ended with exit status {status}."
    try:
        return f"It was ended by signal {-status} ({signal.Signals(-status).name})."
    except ValueError:
        return f"It was ended by signal {-status}."


def _memory(state: State | None) -> str:
    if state is None:
        return ""
    return f"Its memory was {state.resident_bytes / 1e6:,.0f} MB when it last told."


def _last_words(log: LogPart) -> str:
    lines = last_lines(log)
    return "Its last log lines:\n" + "\n".join(lines) if lines else "It logged nothing."


def last_lines(log: LogPart) -> list[str]:
    """The last lines of this process, printable characters only."""
    try:
        with log.path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(min(log.start, end), end - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = [_printable(line) for line in _own(text.splitlines(), log.pid) if line.strip()]
    return _without_dump(lines)[-_TAIL_LINES:]


def _own(lines: Iterable[str], pid: int) -> Iterator[str]:
    """A line without a process goes on with the one before it, as tracebacks and crash dumps do."""
    writer = pid
    for line in lines:
        head = _OF_PROCESS.match(line)
        writer = int(head[1]) if head else writer
        if writer == pid:
            yield line


def _without_dump(lines: list[str]) -> list[str]:
    """Of a crash dump, which lists every thread, only its name and the place of the crash."""
    dumps = [i for i, line in enumerate(lines) if line.startswith(_DUMP)]
    if not dumps:
        return lines
    head, dump = lines[: dumps[-1] + 1], lines[dumps[-1] :]
    place = next((i for i, line in enumerate(dump) if line.startswith(_CRASHED)), len(dump))
    return [*head, *dump[place : place + 1 + _DUMP_FRAMES]]


def _printable(line: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in line).strip()
    return shown[:_LINE_CHARACTERS]
