"""Errors as values and back, for the ways between processes and threads.

Knows only the code of an error, not where it came from: an error that is nobody's to read loses its
class on the way and keeps its words.
"""

from __future__ import annotations

from engine.errors import (
    ContextTooLong,
    LocalchatError,
    ModelFileError,
    OutOfMemory,
    UsageError,
)
from engine.events import ErrorInfo


class EngineStopped(LocalchatError):
    """Somebody stopped it on purpose: loading was cancelled, or the engine was closed."""

    code = "interrupted"


_CLASSES: dict[str, type[LocalchatError]] = {
    kind.code: kind
    for kind in (
        LocalchatError,
        ContextTooLong,
        ModelFileError,
        OutOfMemory,
        UsageError,
        EngineStopped,
    )
}


def info_of(error: BaseException) -> ErrorInfo:
    """Any exception as a value; one not written for people is named as a fault of ours."""
    if isinstance(error, LocalchatError):
        words = (error.title, error.text, error.next_step)
        return ErrorInfo(error.code, *map(_printable, words))
    if isinstance(error, MemoryError):
        return ErrorInfo(
            "memory",
            "The memory is used up.",
            str(error),
            "Close other programs, or choose a smaller model or context.",
        )
    return ErrorInfo(
        "failed",
        "Something went wrong inside the engine.",
        _printable(f"{type(error).__name__}: {error}"),
        "The log file has the details.",
    )


def _printable(text: str) -> str:
    """Undecodable bytes of a file's name are written as escapes, so that any screen takes them."""
    return text.encode("utf-8", "backslashreplace").decode()


def error_of(info: ErrorInfo) -> LocalchatError:
    """The exception of a value, of the class that its code names."""
    kind = _CLASSES.get(info.code, LocalchatError)
    return kind(info.title, info.text, info.next_step)
