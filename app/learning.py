"""Learns what the texts of a throw-away base mean, in a thread of its own. Short texts are known
before the first answer; those that take longer are searched by their words until then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from app.knowledge.states import SyncProgress
from engine.errors import LocalchatError

if TYPE_CHECKING:
    from app.knowledge.base import KnowledgeBase

LOG = logging.getLogger("localchat.knowledge")
LOOK_S = 0.1
END_S = 5.0
NONE_YET = SyncProgress("embedding", 0, 0, is_searchable=True)


class Learning:
    """Ends with its base."""

    def __init__(self, base: KnowledgeBase, clock: Callable[[], float] = time.monotonic) -> None:
        self._base = base
        self._clock = clock
        self._began = clock()
        self._known = threading.Event()
        self._progress = NONE_YET
        self._thread = threading.Thread(target=self._run, name="learning", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """After the base was closed: until its folder is touched no more."""
        self._thread.join(END_S)

    @property
    def progress(self) -> SyncProgress | None:
        """None: all is known, or will not be."""
        return None if self._known.is_set() else self._progress

    def wait(self, seconds: float) -> Iterator[SyncProgress]:
        """Until all is known, or will not be so many seconds after the beginning; gives how far it
        is meanwhile.
        """
        while self._may_be_known(seconds) and not self._known.wait(LOOK_S):
            yield self._progress

    def _may_be_known(self, seconds: float) -> bool:
        elapsed = self._clock() - self._began
        done, total = self._progress.done, self._progress.total
        return elapsed < seconds and (not done or elapsed * total / done <= seconds)

    def _run(self) -> None:
        try:
            self._base.sync(self._report)
        except (LocalchatError, OSError) as error:
            LOG.warning("attached text is searched by its words only: %s", error)
        except Exception:
            # Nobody waits for this thread, and it may not write over the screen.
            LOG.exception("attached text is searched by its words only")
        finally:
            self._known.set()

    def _report(self, progress: SyncProgress) -> None:
        """What follows the last vector is measuring: nobody waits for that."""
        self._progress = progress
        if 0 < progress.total <= progress.done:
            self._known.set()
