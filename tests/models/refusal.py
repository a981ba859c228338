"""The words of an error, if a call ends in one that a person can read; any other error passes
through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from models.errors import LocalchatError


def refusal(read: Callable[[Path], object], path: Path) -> str:
    try:
        read(path)
    except LocalchatError as error:
        return str(error)
    return ""
