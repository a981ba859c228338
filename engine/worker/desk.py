"""The desk thread: makes requests out of what people send, while the owner thread computes.

A slow template or a large saved state holds up only what waits behind it, and a template only as
long as somebody wants the answer. Reads files and renders; never touches the engine.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from engine.backends.llama_cpp.saved_state import SavedState, read_state
from engine.chat import Prepared
from engine.error_values import info_of
from engine.errors import LocalchatError
from engine.events import Failed, Result
from engine.messages import Submit
from engine.request import Request
from engine.worker.model import Model

LOG = logging.getLogger("localchat.worker")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A finished answer whose history is to be made canonical."""

    prepared: Prepared
    result: Result


@dataclass(frozen=True, slots=True)
class Ready:
    """A request for the engine."""

    prepared: Prepared
    conversation: str = ""
    """Whose history the request begins with; it may keep nothing itself."""
    saved: SavedState | None = None
    """The conversation's state from disk, the first time that it is asked for."""


@dataclass(frozen=True, slots=True)
class RewriteReady:
    conversation: str
    of: str
    """Name of the request whose answer is rewritten."""
    request: Request | None


Job = Submit | Rewrite | None
"""None ends the thread."""
Done = Ready | RewriteReady | Failed


class Desk:
    def __init__(self, model: Model, put: Callable[[Done], None]) -> None:
        """`put` hands the work on; called in this thread."""
        self._model = model
        self._put = put
        self._seen: set[str] = set()
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._wanted: dict[str, Submit] = {}
        """What was put here and neither taken nor given up."""
        self._current = ""
        """The request that is being prepared."""

    def put(self, job: Job) -> None:
        """From any thread."""
        if isinstance(job, Submit):
            with self._lock:
                self._wanted[job.request_id] = job
        self._count(1)
        self._jobs.put(job)

    def take(self, request_id: str) -> bool:
        """Whether a request that was handed on is still wanted; it lies here no longer."""
        with self._lock:
            return self._wanted.pop(request_id, None) is not None

    def give_up(self, request_id: str) -> Submit | None:
        """A request that nobody waits for any more; None if it does not lie here."""
        with self._lock:
            submit = self._wanted.pop(request_id, None)
            if submit is not None and self._current == request_id:
                self._model.chat.stop()
            return submit

    def close(self) -> None:
        """Nothing is wanted any more; the thread ends."""
        with self._lock:
            self._wanted.clear()
            self._model.chat.stop()
        self.put(None)

    @property
    def busy(self) -> bool:
        """Whether work lies here that will come to the owner."""
        return self._waiting > 0

    def _count(self, change: int) -> None:
        with self._lock:
            self._waiting += change

    def run(self) -> None:
        """Until the job None."""
        while (job := self._jobs.get()) is not None:
            if isinstance(job, Rewrite):
                self._begin("")
                self._put(self._rewrite(job))
            elif self._begin(job.request_id):
                self._put(self._prepare(job))
            self._count(-1)

    def _begin(self, request_id: str) -> bool:
        """Whether the next job, a request or none, is still wanted."""
        with self._lock:
            self._current = request_id
            self._model.chat.resume()
            return not request_id or request_id in self._wanted

    def _prepare(self, submit: Submit) -> Ready | Failed:
        try:
            prepared = self._model.chat.prepare(submit)
            return Ready(prepared, submit.conversation, self._saved(submit.conversation))
        except Exception as error:
            if not isinstance(error, LocalchatError):
                LOG.exception("a request could not be prepared")
            return Failed(submit.request_id, info_of(error))

    def _rewrite(self, job: Rewrite) -> RewriteReady:
        request = None
        try:
            request = self._model.chat.canonical(job.prepared, job.result)
        except LocalchatError as error:
            LOG.info("no canonical history: %s", error)
        except Exception:
            LOG.exception("no canonical history")
        asked = job.prepared.request
        return RewriteReady(asked.conversation, asked.request_id, request)

    def _saved(self, conversation: str) -> SavedState | None:
        folder = self._model.saved_folder
        if folder is None or not conversation or conversation in self._seen:
            return None
        self._seen.add(conversation)
        return read_state(folder, conversation, self._model.fingerprint)
