"""Every exception becomes words with a next step, and an exit status."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from app.errors import Busy, DiskFull, NotFound, StorageError, exit_code, file_error, to_error_info
from engine.errors import ContextTooLong, LocalchatError, ModelNotFound, OutOfMemory, UsageError


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (LocalchatError("a"), "failed", 1),
        (Busy("a"), "failed", 1),
        (UsageError("a"), "usage", 2),
        (NotFound("a"), "usage", 2),
        (ModelNotFound("a"), "model", 3),
        (OutOfMemory("a"), "memory", 4),
        (MemoryError(), "memory", 4),
        (ContextTooLong("a"), "context", 5),
        (KeyboardInterrupt(), "interrupted", 130),
        (ZeroDivisionError("x"), "failed", 1),
        (OSError("x"), "failed", 1),
    ],
)
def test_each_error_has_its_exit_status(error: BaseException, code: str, status: int) -> None:
    assert to_error_info(error).code == code
    assert exit_code(code) == status


def test_an_unknown_code_is_a_failure() -> None:
    assert exit_code("nonsense") == 1
    assert exit_code("ok") == 0


@pytest.mark.parametrize(
    ("number", "kind", "title"),
    [
        (errno.ENOSPC, DiskFull, "The disk is full"),
        (errno.EACCES, StorageError, "No permission"),
        (errno.EROFS, StorageError, "The disk is read-only"),
        (errno.ENAMETOOLONG, StorageError, "The path is too long"),
        (errno.EXDEV, StorageError, "The system reports an error"),
    ],
)
def test_errors_of_the_system_name_path_and_next_step(
    number: int, kind: type[StorageError], title: str
) -> None:
    error = file_error(OSError(number, os.strerror(number)), Path("/some/place"))
    assert type(error) is kind
    assert error.title == title
    assert "/some/place" in error.text
    assert error.next_step


def test_paths_in_errors_are_clean() -> None:
    error = OSError(errno.ENOENT, "gone", b"/tmp/\x1b[31m\xff\n")
    assert to_error_info(error).text == "/tmp/␛[31m\\xff: gone"


def test_an_unexpected_error_is_named_on_one_line() -> None:
    info = to_error_info(RuntimeError("a\nb\x1b[2J"))
    assert info.text == "RuntimeError: a b␛[2J"
    assert info.next_step
