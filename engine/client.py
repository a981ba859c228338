"""The front end's side of the engine: load, submit, cancel, count, drop, close.

Thread-safe; blocking calls are meant for threads that may wait. Starts a worker process when it
needs
one, and a new one when the last died. Never loads a model or a vocabulary itself.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty

from engine.backends.llama_cpp.threads import worker_environment
from engine.error_values import EngineStopped, error_of, info_of
from engine.errors import LocalchatError, UsageError
from engine.events import Event, Failed, Finished
from engine.link import LOAD, Inbox, Link, answering, counting, dropping
from engine.messages import (
    Cancel,
    ChatMessage,
    Close,
    Count,
    Drop,
    Dropped,
    Load,
    Loaded,
    LoadOptions,
    LoadProgress,
    State,
    Submit,
)

COMMAND = (sys.executable, "-P", "-m", "engine.worker")
"""-P: a folder named `engine` where the person stands is not ours."""
CANCEL_PATIENCE_S = 5.0
"""A worker that has not ended a cancelled request after this long hangs, and is ended by force."""
LOAD_CANCEL_PATIENCE_S = 1.0
_DROP_PATIENCE_S = 10.0
_DEFAULTS = LoadOptions()


class EngineClient:
    """One per front end. `loaded` and `state` are of the worker that lives now."""

    def __init__(self, log_path: Path, command: Sequence[str] | None = None) -> None:
        self._log_path = log_path
        self._command = tuple(command or COMMAND)
        self._link: Link | None = None
        self._loaded: Loaded | None = None
        self._last_load: Load | None = None
        self._progress: Callable[[LoadProgress], None] | None = None
        self._starting = threading.RLock()
        self._load_cancelled = threading.Event()
        self._cancelled: dict[str, float] = {}
        """When a running request was cancelled, in seconds of the monotonic clock."""
        self._running: set[str] = set()
        self._numbers = itertools.count(1)
        self._closed = False

    @property
    def loaded(self) -> Loaded | None:
        return self._loaded if self._alive() is not None else None

    @property
    def state(self) -> State | None:
        link = self._alive()
        return link.state if link is not None else None

    @property
    def pid(self) -> int | None:
        link = self._alive()
        return link.process.pid if link is not None and link.process is not None else None

    # ---- loading

    def load(
        self,
        path: str,
        options: LoadOptions = _DEFAULTS,
        progress: Callable[[LoadProgress], None] | None = None,
    ) -> Loaded:
        """Blocks until the model is usable; returns at once when it already is.

        `progress` is called in this thread. Raises LocalchatError; EngineStopped after
        `cancel_load`.
        """
        wanted = Load(path, options)
        with self._starting:
            if self._last_load == wanted and self.loaded is not None:
                return self.loaded
            self._closed = False
            self._load_cancelled.clear()
            self._progress = progress
            self._end_link(_DROP_PATIENCE_S)
            self._last_load = wanted
            return self._start(wanted)

    def cancel_load(self) -> None:
        """From any thread: a running `load` raises EngineStopped within about a second."""
        self._load_cancelled.set()

    def _start(self, wanted: Load) -> Loaded:
        link = Link(self._command, self._log_path, worker_environment(os.environ))
        inbox = link.open(LOAD)
        link.send(wanted)
        try:
            self._loaded = self._await_load(link, inbox)
        except BaseException:
            link.kill()
            raise
        finally:
            link.close_inbox(LOAD)
        self._link = link
        return self._loaded

    def _await_load(self, link: Link, inbox: Inbox) -> Loaded:
        cancelled_at: float | None = None
        while True:
            if self._load_cancelled.is_set() and cancelled_at is None:
                link.send(Cancel(LOAD))
                cancelled_at = time.monotonic()
            try:
                message = inbox.get(timeout=0.05)
            except Empty:
                if _overdue(cancelled_at, LOAD_CANCEL_PATIENCE_S):
                    raise EngineStopped("Loading was stopped.") from None
                continue
            match message:
                case LoadProgress() if self._progress is not None:
                    self._progress(message)
                case Loaded():
                    return message
                case Failed(cause=cause):
                    raise error_of(cause)

    # ---- answers

    def submit(self, submit: Submit) -> Iterator[Event]:
        """Sends at once; yields up to Finished or Failed. Closing the iterator early cancels.

        A dead worker is started again first, with the last model; what goes wrong is a Failed
        event.
        Raises UsageError when no model was ever loaded or the request's name is in use.
        """
        request_id = submit.request_id
        if request_id in self._running:
            raise UsageError("This request is already running.", f"Its name is {request_id!r}.")
        self._running.add(request_id)
        try:
            link = self._living_link()
        except LocalchatError as error:
            self._forget(request_id)
            if self._last_load is None:
                raise
            return iter((Failed(request_id, info_of(error)),))
        inbox = link.open(answering(request_id))
        link.send(_encodable(submit))
        if request_id in self._cancelled:
            link.send(Cancel(request_id))
        return self._events(link, inbox, request_id)

    def cancel(self, request_id: str) -> None:
        """From any thread, at any time, more than once: the request ends as `cancelled`."""
        if request_id not in self._running:
            return
        self._cancelled.setdefault(request_id, time.monotonic())
        link = self._alive()
        if link is None:
            self.cancel_load()  # the request waits for a worker that is being started
        else:
            link.send(Cancel(request_id))

    def _events(self, link: Link, inbox: Inbox, request_id: str) -> Iterator[Event]:
        ended = False
        try:
            while not ended:
                try:
                    message = inbox.get(timeout=0.25)
                except Empty:
                    if _overdue(self._cancelled.get(request_id), CANCEL_PATIENCE_S):
                        link.kill()  # the reason arrives in the inbox
                    continue
                ended = isinstance(message, (Finished, Failed))
                yield message  # type: ignore[misc]  # an answer's inbox holds events only
        finally:
            if not ended:
                link.send(Cancel(request_id))
            link.close_inbox(answering(request_id))
            self._forget(request_id)

    def _forget(self, request_id: str) -> None:
        self._running.discard(request_id)
        self._cancelled.pop(request_id, None)

    # ---- side questions

    def count(self, text: str, timeout: float = 1.0) -> int | None:
        """Tokens of a draft; None without a model, or when it takes longer than `timeout` s."""
        link = self._alive()
        if link is None:
            return None
        count_id = str(next(self._numbers))
        inbox = link.open(counting(count_id))
        try:
            link.send(Count(count_id, _whole(text)))
            answer = inbox.get(timeout=timeout)
        except Empty:
            return None
        finally:
            link.close_inbox(counting(count_id))
        return getattr(answer, "tokens", None)

    def drop(self, conversation: str) -> bool:
        """Forgets a conversation's KV in memory and on disk; False when that is not certain."""
        link = self._alive()
        if link is not None and self._drop_in(link, conversation):
            return True
        return self._drop_saved(conversation)

    def _drop_in(self, link: Link, conversation: str) -> bool:
        key = dropping(conversation)
        try:
            inbox = link.open(key)
        except UsageError:
            return False
        try:
            link.send(Drop(conversation))
            return isinstance(inbox.get(timeout=_DROP_PATIENCE_S), Dropped)
        except Empty:
            return False
        finally:
            link.close_inbox(key)

    def _drop_saved(self, conversation: str) -> bool:
        folder = self._last_load.options.cache_folder if self._last_load else None
        return folder is not None and drop_saved(folder, conversation)

    # ---- life and death

    def close(self, timeout: float = 5.0) -> None:
        """Lets the worker save what should outlive it, and ends it, by force after `timeout` s."""
        self.cancel_load()
        with self._starting:
            self._closed = True
            self._end_link(timeout)

    def _alive(self) -> Link | None:
        link = self._link
        return link if link is not None and link.ended is None else None

    def _living_link(self) -> Link:
        with self._starting:
            link = self._alive()
            if link is not None:
                return link
            if self._closed:
                raise EngineStopped("The engine was closed.")
            if self._last_load is None:
                raise UsageError("No model is loaded.", "", "Choose a model first.")
            self._load_cancelled.clear()
            self._end_link(0.0)
            self._start(self._last_load)
            assert self._link is not None
            return self._link

    def _end_link(self, timeout: float) -> None:
        link, self._link, self._loaded = self._link, None, None
        if link is not None:
            link.close(Close(), timeout)


def drop_saved(folder: str, conversation: str) -> bool:
    """Removes a conversation's saved states without a worker."""
    from engine.backends.llama_cpp.saved_state import drop_state

    drop_state(Path(folder), conversation)
    return True


def _overdue(since: float | None, patience_s: float) -> bool:
    return since is not None and time.monotonic() - since > patience_s


def _encodable(submit: Submit) -> Submit:
    return replace(submit, messages=tuple(_whole_message(m) for m in submit.messages))


def _whole_message(message: ChatMessage) -> ChatMessage:
    return replace(message, content=_whole(message.content), reasoning=_whole(message.reasoning))


def _whole(text: str) -> str:
    """Halves of surrogate pairs, as undecodable input leaves them, become U+FFFD."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
