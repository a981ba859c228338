"""Keeps a knowledge base in step while it is open: syncs it when something below its roots changes.

What the system tells is a hint only; what is true the scan finds out. Words go before vectors: a
change stops the embedding, which goes on afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from app.errors import Busy, LocalchatError, file_error
from app.knowledge.base import KnowledgeBase, ignore
from app.knowledge.changes import Changes
from app.knowledge.errors import EmbedderChanged
from app.knowledge.states import SyncProgress, SyncReport

T = TypeVar("T")

REST_SHARE = 1.0
"""A sync that took a second is followed by a second of rest: a file that is written all the time
takes half of one core at most.
"""
BUSY_SECONDS = 2.0
TROUBLE_SECONDS = 30.0
"""Until the next try after another process was at it, and after an error."""


class Watch:
    """Threads that follow the roots of a base; they sync once at their start."""

    def __init__(
        self,
        base: KnowledgeBase,
        on_report: Callable[[SyncReport], None] | None = None,
        on_progress: Callable[[SyncProgress], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        """The callables run in the watch's threads."""
        self._base = base
        self._on_report = on_report or ignore
        self._on_progress = on_progress or ignore
        self._on_notice = on_notice or ignore
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._lexical_only = False
        self._changes = Changes(
            self._roots, base.ours, self._wanted.set, lambda text: self._on_notice(text)
        )
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._wanted.set()
        self._thread.start()
        self._changes.start()

    def stop(self) -> None:
        """Returns when the threads have ended; a sync in progress is stopped."""
        self._base.is_watched = False
        self._ended.set()
        self._wanted.set()
        self._changes.stop()
        self._thread.join()

    def _roots(self) -> Sequence[Path]:
        try:
            return self._base.roots
        except LocalchatError:
            return ()  # Another program has removed the base; the next sync tells.

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            if self._ended.is_set():
                return
            self._wanted.clear()
            began = time.monotonic()
            pause = self._sync()
            rest = REST_SHARE * (time.monotonic() - began) if pause is None else pause
            self._ended.wait(rest)

    def _sync(self) -> float | None:
        """Seconds to wait where it did not go well, after which it is tried again."""
        try:
            report = self._base.sync(self._report, lexical_only=self._lexical_only)
        except Busy:
            self._base.is_watched = False
            self._wanted.set()
            return BUSY_SECONDS
        except EmbedderChanged as error:
            self._lexical_only = True  # The words are in step, and stay so.
            self._base.is_watched = not self._ended.is_set()
            self._on_notice(f"{error.title}. {error.next_step}")
            return 0.0
        except (LocalchatError, OSError) as error:
            told = file_error(error) if isinstance(error, OSError) else error
            self._base.is_watched = False
            self._wanted.set()
            self._on_notice(f"{told.title}: {told.text}")
            return TROUBLE_SECONDS
        self._base.is_watched = not self._ended.is_set()
        self._on_report(report)
        if report.is_complete:
            return None
        if self._wanted.is_set():
            return 0.0  # Stopped for a change.
        self._wanted.set()
        return BUSY_SECONDS

    def _report(self, progress: SyncProgress) -> bool:
        """False: stop. Vectors wait when the words are not in step any more."""
        self._on_progress(progress)
        if progress.phase == "reading":
            return not self._ended.is_set()
        self._base.is_watched = not self._ended.is_set()
        return self._base.is_watched and not self._wanted.is_set()
