"""What is known of a worker's end: exit signal or status, memory before, its last log lines.

States what was seen and guesses nothing: signal 9 has many senders.
"""

from __future__ import annotations

import signal
from pathlib import Path

from engine.events import ErrorInfo
from engine.messages import State
from models.sizes import show_text

_TAIL_BYTES = 16_000
_TAIL_LINES = 8
_LINE_CHARACTERS = 200
_DUMP, _CRASHED = "Fatal Python error", "Current thread"
_DUMP_FRAMES = 3


def obituary(
    status: int | None, wanted: bool, state: State | None, log_path: Path, log_start: int
) -> ErrorInfo:
    """`status`: as of `Popen.returncode`, None when the process had to be ended by force.

    `wanted`: somebody asked the worker to end.
    """
    if wanted:
        return ErrorInfo("interrupted", "The engine was closed.", _how(status))
    parts = [_how(status), _memory(state), _log(log_path, log_start)]
    return ErrorInfo(
        "failed",
        "The engine stopped in the middle of its work.",
        "\n".join(part for part in parts if part),
        f"Send the message again: the engine starts anew. The log is {show_text(str(log_path))}.",
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


def _log(path: Path, start: int) -> str:
    lines = last_lines(path, start)
    return "Its last log lines:\n" + "\n".join(lines) if lines else "It logged nothing."


def last_lines(path: Path, start: int) -> list[str]:
    """The last lines written at or after byte `start`, printable characters only."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(min(start, end), end - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = [_printable(line) for line in text.splitlines() if line.strip()]
    return _without_dump(lines)[-_TAIL_LINES:]


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
