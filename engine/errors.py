"""Errors of the engine, and the base that the layers above catch.

    LocalchatError
    ├── ContextTooLong   context (exit 5)
    ├── WorkerDied       failed
    ├── BackendLost      failed: only a new process can compute again
    ├── UsageError       usage   (exit 2): a setting that this model or backend cannot take
    └── (the errors of models/errors.py)

`Interrupted`, `OutOfRoom` and `NotFinite` travel between a backend and the engine only.
"""

from __future__ import annotations

from models.errors import (
    LocalchatError,
    ModelFileError,
    ModelNotFound,
    OutOfMemory,
    TemplateError,
    UnsupportedModel,
)

__all__ = [
    "BackendLost",
    "ContextTooLong",
    "Interrupted",
    "LocalchatError",
    "ModelFileError",
    "ModelNotFound",
    "OutOfMemory",
    "OutOfRoom",
    "TemplateError",
    "UnsupportedModel",
    "UsageError",
    "WorkerDied",
]


class ContextTooLong(LocalchatError):
    """The prompt does not fit into the context window."""

    code = "context"


class UsageError(LocalchatError):
    """A value that is not allowed; the text names the key and what is allowed."""

    code = "usage"


class WorkerDied(LocalchatError):
    """The engine's process ended without being asked to."""


class BackendLost(LocalchatError):
    """What computes answers nothing any more: its process must end."""


class Interrupted(Exception):
    """`Backend.forward` was interrupted.

    `rows_done[i]` is the number of tokens of row i whose KV is completely written; they count as
    forwarded.
    """

    def __init__(self, rows_done: tuple[int, ...]) -> None:
        super().__init__("interrupted")
        self.rows_done = rows_done


class OutOfRoom(Exception):
    """`Backend.forward` found no room for the rows; nothing was changed. Park, drop or shrink and
    try again.
    """
