"""Errors of the front end, and the one place where any exception becomes words for a person.

    LocalchatError
    ├── StorageError     failed: the chats or the settings cannot be read or written
    │   ├── Busy         failed: another process is at it, named with its pid
    │   └── DiskFull     failed
    └── NotFound         usage  (exit 2): no chat or message of that number
    (and the errors of engine/errors.py)

It knows neither the screen nor the command line: both show an `ErrorInfo`.
"""

from __future__ import annotations

import errno
import os

from app.exit_codes import EXIT_CODES, exit_code
from app.sanitize import clean, single_line
from engine.errors import LocalchatError
from engine.events import ErrorInfo

__all__ = [
    "EXIT_CODES",
    "Busy",
    "DiskFull",
    "LocalchatError",
    "NotFound",
    "StorageError",
    "exit_code",
    "file_error",
    "in_one_line",
    "to_error_info",
]


class StorageError(LocalchatError):
    """A file of ours cannot be read or written; the text names it."""


class Busy(StorageError):
    """Another process holds what is needed; the text names its pid."""


class DiskFull(StorageError):
    """No room on the disk; nothing that was saved before is lost."""


class NotFound(LocalchatError):
    """No chat or message of that number."""

    code = "usage"


FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG})
DENIED = frozenset({errno.EACCES, errno.EPERM})

OS_ERRORS: dict[int, tuple[str, str]] = {
    errno.EROFS: ("The disk is read-only", "Choose a folder on a disk that can be written."),
    errno.ENOENT: ("A file or folder is missing", "Check the path."),
    errno.ENOTDIR: ("A part of the path is not a folder", "Check the path."),
    errno.EISDIR: ("A folder is where a file should be", "Move the folder away, or change path."),
    errno.ENAMETOOLONG: ("The path is too long", "Choose a shorter path."),
    errno.EMFILE: ("Too many files are open", "Close other programs, or raise `ulimit -n`."),
    errno.EIO: ("The disk reports an error", "Check the disk; make a copy of your data."),
}
"""Title and next step by error number."""


def file_error(error: OSError, path: str | os.PathLike[str] | None = None) -> StorageError:
    """An operating-system error as words that name the path; `path` where the error has none."""
    place = error.filename if error.filename is not None else path
    name = single_line(os.fsdecode(place)) if isinstance(place, str | bytes | os.PathLike) else ""
    text = ": ".join(part for part in (name, single_line(error.strerror or str(error))) if part)
    if error.errno in FULL:
        return DiskFull("The disk is full", text, "Free some space, then try again.")
    if error.errno in DENIED:
        return StorageError("No permission", text, "Check the permissions of that path.")
    title, next_step = OS_ERRORS.get(
        error.errno or 0, ("The system reports an error", "Check the path and try again.")
    )
    return StorageError(title, text, next_step)


def to_error_info(error: BaseException) -> ErrorInfo:
    """Any exception as a value with a title, what is known, a next step and an exit code's name."""
    if isinstance(error, LocalchatError):
        return ErrorInfo(
            error.code, single_line(error.title), clean(error.text), clean(error.next_step)
        )
    if isinstance(error, OSError):
        return to_error_info(file_error(error))
    if isinstance(error, MemoryError):
        return ErrorInfo(
            "memory",
            "Not enough memory",
            "The program itself ran out of memory.",
            "Close other programs, or choose a smaller model or context.",
        )
    if isinstance(error, KeyboardInterrupt):
        return ErrorInfo("interrupted", "Interrupted")
    return ErrorInfo(
        "failed",
        "Something went wrong that should not",
        single_line(f"{type(error).__name__}: {error}"),
        "The log has the details: `localchat locate logs`.",
    )


def in_one_line(cause: ErrorInfo) -> str:
    """What is known of an error, a sentence after the other."""
    parts = filter(None, (cause.title, cause.text, cause.next_step))
    return " ".join(part if part.endswith((".", "!", "?", "…")) else f"{part}." for part in parts)
