"""The owner thread's work between answers: saving the open conversation, tuning, telling its state.

Never in front of somebody who waits: each piece asks whether to stop, and the owner calls it only
when the engine has nothing to do. Knows no pipe.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.backends.llama_cpp.saved_state import drop_state, write_state
from engine.messages import State
from engine.worker.model import Model

LOG = logging.getLogger("localchat.worker")
SAVE_AFTER_S = 60.0
STATE_EVERY_S = 1.0
FEW_TOKENS = 16
"""The end of a prompt is computed again although all of it is kept."""
PRIVATE = "private"
"""Conversations whose name begins like this are never written to disk."""
THREADS_EVERY_S = 0.2
IDLE_LOOK_S = 1.0
"""Other programs are watched between answers too: an answer begins with the right threads."""


class Saving:
    """Writes the open conversation's state once it has been quiet for a minute, and with it the
    pinned beginnings that are not on disk yet.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._open = ""
        self._pinned: list[str] = []
        self._changed_at: float | None = None

    def touched(self, conversation: str, now: float) -> None:
        """A request of this conversation has begun or ended."""
        if conversation and not conversation.startswith(PRIVATE):
            self._open, self._changed_at = conversation, now

    def pinned(self, conversation: str, computed_tokens: int) -> None:
        """A pinned beginning was read; one that came from disk is as good as it was there."""
        is_new = computed_tokens > FEW_TOKENS and conversation not in self._pinned
        if is_new and not conversation.startswith(PRIVATE):
            self._pinned.append(conversation)

    @property
    def due(self) -> float | None:
        """When to save, on the owner's clock; None: nothing has changed."""
        if self._changed_at is None or self._model.saved_folder is None:
            return None
        return self._changed_at + SAVE_AFTER_S

    def save(self) -> None:
        """Never raises: a state that is not saved is computed again."""
        pinned, self._pinned = self._pinned, []
        for conversation in pinned:
            self._write(conversation)
        if self._changed_at is not None:
            self._changed_at = None
            self._write(self._open)

    def _write(self, conversation: str) -> None:
        folder = self._model.saved_folder
        kept = None if folder is None else self._model.engine.export(conversation)
        if folder is None or kept is None:
            return
        try:
            write_state(
                folder,
                conversation,
                self._model.fingerprint,
                kept.ids,
                kept.parked,
                self._model.saved_bytes,
            )
        except OSError as error:
            LOG.warning("the conversation's state was not saved: %s", error)

    def dropped(self, conversation: str) -> None:
        """Nothing of this conversation is left on disk."""
        if conversation == self._open:
            self._open, self._changed_at = "", None
        if conversation in self._pinned:
            self._pinned.remove(conversation)
        if self._model.saved_folder is not None:
            drop_state(self._model.saved_folder, conversation)


class Watch:
    """Follows other programs' load and tells memory and threads, each at its own pace."""

    def __init__(self, model: Model, send: Callable[[State], None]) -> None:
        self._model = model
        self._send = send
        self._told: State | None = None
        self._tell_at = 0.0
        self._poll_at = 0.0

    def look(self, now: float, seeded: bool) -> None:
        if now >= self._poll_at:
            self._poll_at = now + THREADS_EVERY_S
            self._model.upkeep.poll(now, seeded)
        if now >= self._tell_at:
            self._tell_at = now + STATE_EVERY_S
            self.tell()

    def tell(self, tuning: bool = False) -> None:
        """Send the state if it differs from the one told last."""
        stats = self._model.engine.stats
        state = State(
            kv_bytes_live=stats.kv_bytes_live,
            kv_bytes_parked=stats.kv_bytes_parked,
            resident_bytes=resident_bytes(),
            threads=self._model.upkeep.threads,
            tuning=tuning,
        )
        if state != self._told:
            self._told = state
            self._send(state)


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    import psutil

    return int(psutil.Process().memory_info().rss)
