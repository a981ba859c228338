"""The exit statuses of every command, by the names that errors carry.

`error.code` of a result is one of these names; the number is what the shell sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OK = 0

EXIT_CODES: Mapping[str, int] = MappingProxyType(
    {
        "ok": OK,
        "failed": 1,
        "usage": 2,
        "model": 3,
        "memory": 4,
        "context": 5,
        "interrupted": 130,
    }
)


def exit_code(code: str) -> int:
    """The exit status of an error's code name; an unknown name counts as `failed`."""
    return EXIT_CODES.get(code, EXIT_CODES["failed"])
