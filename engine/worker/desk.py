"""The desk thread: makes requests out of what people send, while the owner thread computes.

A slow template or a large saved state holds up only what waits behind it. Reads files and renders;
never touches the engine.
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
        self.names: set[str] = set()
        """Requests that are on the desk."""

    def put(self, job: Job) -> None:
        """From any thread."""
        if isinstance(job, Submit):
            self.names.add(job.request_id)
        self._count(1)
        self._jobs.put(job)

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
            if isinstance(job, Submit):
                self._put(self._prepare(job))
            else:
                self._put(self._rewrite(job))
            self._count(-1)

    def _prepare(self, submit: Submit) -> Ready | Failed:
        try:
            prepared = self._model.chat.prepare(submit)
            return Ready(prepared, self._saved(prepared.request.conversation))
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
