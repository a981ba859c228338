"""Keeps a knowledge base in step while it is open: syncs it when something below its roots changes.

What the system tells is a hint only; what is true the scan finds out.
"""

from __future__ import annotations

from collections.abc import Callable

from app.knowledge.base import KnowledgeBase
from app.knowledge.states import SyncProgress, SyncReport


class Watch:
    """A thread that follows the roots of a base; syncs once at its start."""

    def __init__(
        self,
        base: KnowledgeBase,
        on_report: Callable[[SyncReport], None] | None = None,
        on_progress: Callable[[SyncProgress], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        """The callables run in the watch's thread."""
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Returns when the thread has ended; a sync in progress is stopped."""
        raise NotImplementedError
