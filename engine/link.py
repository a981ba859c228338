"""One life of a worker, seen from the front end: whoever asked gets what was meant for him.

One thread starts the process, reads its pipe until the end and shares the messages out to inboxes.
When the worker ends, every open inbox gets the reason as its last message. Nothing is restarted
here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue

from engine.error_values import error_of, info_of
from engine.errors import LocalchatError, UsageError
from engine.events import ErrorInfo, Failed
from engine.messages import (
    Counted,
    Dropped,
    EmbedderReady,
    FromWorker,
    Hello,
    Loaded,
    LoadProgress,
    State,
    ToWorker,
)
from engine.obituary import LogPart, obituary
from engine.pipe import check_hello
from engine.worker_process import WorkerProcess
from models.sizes import show_text

LOAD = "load"
"""Inbox of a load, and the request id that cancels it."""
_HELLO = "hello"
_DROP = "drop "
_LAST_BREATH_S = 2.0
"""A worker whose pipe has ended gets this long to leave by itself, so that its exit status is its
own.
"""

Inbox = SimpleQueue[FromWorker]


class Link:
    """Thread-safe. `ended` is None while the worker lives, then the reason."""

    def __init__(
        self, command: Sequence[str], log_path: Path, environment: Mapping[str, str]
    ) -> None:
        """Starts a worker and waits for its greeting. Raises LocalchatError when there is none."""
        self.ended: ErrorInfo | None = None
        self.state: State | None = None
        self.process: WorkerProcess | None = None
        self._closing = False
        self._lock = threading.Lock()
        self._inboxes: dict[str, Inbox] = {}
        inbox = self.open(_HELLO)
        thread = threading.Thread(
            target=self._live, args=(command, log_path, environment), name="engine", daemon=True
        )
        thread.start()
        self._thread = thread
        first = inbox.get()
        self.close_inbox(_HELLO)
        if isinstance(first, Failed):
            raise error_of(first.cause)

    def open(self, key: str) -> Inbox:
        """An inbox for the messages of one request; a dead worker's holds the reason already."""
        with self._lock:
            if key in self._inboxes:
                raise UsageError("This request is already running.", f"Its name is {key!r}.")
            inbox: Inbox = SimpleQueue()
            if self.ended is not None:
                inbox.put(Failed(key, self.ended))
            self._inboxes[key] = inbox
            return inbox

    def close_inbox(self, key: str) -> None:
        with self._lock:
            self._inboxes.pop(key, None)

    def send(self, message: ToWorker) -> None:
        """Never raises for a dead worker: the reason arrives in the inboxes."""
        if self.process is None:
            return
        try:
            self.process.sender.send(message)
        except OSError:  # the reading thread learns of it too
            pass

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def close(self, message: ToWorker, timeout: float) -> None:
        """Asks the worker to end, waits, and ends it by force after `timeout` seconds."""
        self._closing = True
        asking = threading.Thread(target=self.send, args=(message,), daemon=True)
        asking.start()  # a worker that hangs may have left its pipe full
        self._thread.join(timeout)
        self.kill()
        self._thread.join()
        asking.join()

    # ---- the reading thread

    def _live(self, command: Sequence[str], log_path: Path, environment: Mapping[str, str]) -> None:
        cause: ErrorInfo
        try:
            self.process = WorkerProcess(command, log_path, environment)
            cause = self._read(self.process, log_path)
        except OSError as error:
            cause = ErrorInfo(
                "failed",
                "The engine could not be started.",
                show_text(f"{error.strerror or error}: {error.filename or command[0]}."),
                "Look at the free disk space and the rights of that file.",
            )
        self._end(cause)

    def _read(self, process: WorkerProcess, log_path: Path) -> ErrorInfo:
        try:
            check = check_hello(process.receiver.receive())
            self._deliver(check)
            while True:
                self._deliver(process.receiver.receive())
        except EOFError:
            status = process.wait(_LAST_BREATH_S)
            if status is None:
                process.kill()
                process.wait(_LAST_BREATH_S)
            log = LogPart(log_path, process.log_start, process.pid)
            return obituary(status, self._closing, self.state, log)
        except LocalchatError as error:
            process.kill()
            return info_of(error)
        finally:
            process.wait(_LAST_BREATH_S)
            process.close()

    def _deliver(self, message: FromWorker | ToWorker) -> None:
        if isinstance(message, State):
            self.state = message
            return
        if isinstance(message, Failed) and message.request_id is None:
            self._broadcast(message.cause)
            return
        with self._lock:
            inbox = self._inboxes.get(_key(message))
        if inbox is not None:
            inbox.put(message)  # type: ignore[arg-type]  # only messages of the worker have a key

    def _broadcast(self, cause: ErrorInfo) -> None:
        with self._lock:
            inboxes = list(self._inboxes.items())
        for key, inbox in inboxes:
            inbox.put(Failed(key, cause))

    def _end(self, cause: ErrorInfo) -> None:
        with self._lock:
            self.ended = cause
        self._broadcast(cause)


def counting(count_id: str) -> str:
    return f"count {count_id}"


def dropping(conversation: str) -> str:
    return f"{_DROP}{conversation}"


def answering(request_id: str) -> str:
    return f"answer {request_id}"


def _key(message: FromWorker | ToWorker) -> str:
    """Which inbox a message of the worker belongs to; empty for none."""
    match message:
        case Hello():
            return _HELLO
        case Loaded() | LoadProgress() | EmbedderReady():
            return LOAD
        case Counted(count_id=count_id):
            return counting(count_id)
        case Dropped(conversation=conversation):
            return dropping(conversation)
        case Failed(request_id=str(request_id)) if request_id.startswith((LOAD, _DROP)):
            return request_id
    asker = getattr(message, "request_id", None)
    return answering(asker) if isinstance(asker, str) else ""
