"""The owner thread: steps the engine, and works for itself when nobody waits.

Everything that others want of it lies in its inbox. It alone touches engine and backend, apart from
`Backend.interrupt`, with which the other threads get its attention. Knows no pipe.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from engine.chat import Prepared
from engine.error_values import info_of
from engine.errors import LocalchatError
from engine.events import Event, Failed, Finished, Result
from engine.link import dropping
from engine.messages import Cancel, Close, Drop, Dropped, FromWorker
from engine.request import Priority
from engine.worker.desk import Desk, Done, Ready, Rewrite, RewriteReady
from engine.worker.history import Histories
from engine.worker.model import Model
from engine.worker.publisher import Publisher
from engine.worker.upkeep import IDLE_LOOK_S, Saving, Watch

LOG = logging.getLogger("localchat.worker")
Item = Cancel | Drop | Close | Done
_LAST_STEPS = 20
"""Steps that running requests get to end when the worker is closed."""


class Owner:
    """`send` puts a message into the pipe; it raises OSError when nobody reads it any more."""

    def __init__(
        self,
        model: Model,
        send: Callable[[FromWorker], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.desk = Desk(model, self.put)
        self._model = model
        self._engine = model.engine
        self._send = send
        self._clock = clock
        self._inbox: SimpleQueue[Item] = SimpleQueue()
        self._publisher = Publisher(send, model.loaded.load_ms)
        self._histories = Histories()
        self._saving = Saving(model)
        self._watch = Watch(model, send)
        self._running: dict[str, Prepared] = {}
        self._answered = False
        self._tuned = False
        self._closing = False
        self._answering = False
        """Whether anything but background work runs; read by other threads."""

    def put(self, item: Item) -> None:
        """From any thread: into the inbox, and out of whatever the item need not wait for."""
        self._inbox.put(item)
        if not self._answering or isinstance(item, (Cancel, Drop, Close)):
            self._model.backend.interrupt()

    def count(self, text: str) -> int:
        """From any thread: tokens of a text."""
        return self._model.chat.count(text)

    def run(self) -> None:
        """Until Close; saves the open conversation last."""
        self._watch.tell()
        while not self._closing:
            self._take(self._patience())
            if self._engine.busy:
                self._step()
            elif self._inbox.empty() and not self._closing:
                self._idle()
        self._end()

    # ---- the inbox

    def _patience(self) -> float:
        """Seconds to wait for something to do."""
        if self._engine.busy or self._may_tune:
            return 0.0
        due = self._saving.due
        return IDLE_LOOK_S if due is None else min(max(due - self._clock(), 0.0), IDLE_LOOK_S)

    def _take(self, patience: float) -> None:
        try:
            self._handle(self._inbox.get(timeout=patience) if patience else self._now())
            while True:
                self._handle(self._now())
        except Empty:
            return

    def _now(self) -> Item:
        return self._inbox.get_nowait()

    def _handle(self, item: Item) -> None:
        match item:
            case Ready():
                self._submit(item)
            case RewriteReady():
                self._rewrite(item)
            case Failed(request_id=str(request_id)):
                if self.desk.take(request_id):
                    self._send(item)
            case Cancel(request_id=request_id):
                self._cancel(request_id)
            case Drop(conversation=conversation):
                self._drop(conversation)
            case Close():
                self._closing = True

    def _submit(self, ready: Ready) -> None:
        request = ready.prepared.request
        if ready.saved is not None and not self._engine.cache.of(ready.conversation):
            saved = ready.saved
            ids, parked = saved.ids, saved.parked
            self._engine.adopt(ready.conversation, ids, parked, self._model.fingerprint)
        if self.desk.take(request.request_id):
            self._histories.asked(request.conversation)
            self._start(ready.prepared)

    def _start(self, prepared: Prepared) -> None:
        request = prepared.request
        self._running[request.request_id] = prepared
        self._publisher.open(prepared)
        if not request.pinned:
            self._saving.touched(request.conversation, self._clock())
        self._engine.submit(request)

    def _cancel(self, request_id: str) -> None:
        if request_id in self._running:
            self._engine.cancel(request_id)
        elif (submit := self.desk.give_up(request_id)) is not None:
            seed = submit.sampling.seed or 0
            kv_type = self._model.backend.facts.kv_type
            self._send(Finished(request_id, Result("", "", (), "cancelled", seed, kv_type)))

    def _drop(self, conversation: str) -> None:
        self._engine.drop(conversation)
        self._histories.dropped(conversation)
        try:
            self._saving.dropped(conversation)
        except OSError as error:
            self._send(Failed(dropping(conversation), info_of(error)))
            return
        self._send(Dropped(conversation))

    # ---- computing

    def _step(self) -> None:
        self._answering = any(
            prepared.request.priority < Priority.BACKGROUND for prepared in self._running.values()
        )
        events = self._engine.step()
        now = self._clock()
        for finished in self._publisher.publish(events, now):
            self._finished(*finished)
        self._forget_ended(events)
        seeded = any(prepared.seed_given for prepared in self._running.values())
        self._watch.look(now, seeded)
        if not self._engine.busy:
            self._answering = False
            self._watch.tell()

    def _forget_ended(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, (Finished, Failed)):
                self._running.pop(event.request_id or "", None)

    # ---- between answers

    def _finished(self, prepared: Prepared, finished: Finished) -> None:
        request = prepared.request
        if not request.conversation:
            return
        if request.pinned:
            self._saving.pinned(request.conversation, finished.result.usage.computed_tokens)
            return
        self._answered = True
        self._saving.touched(request.conversation, self._clock())
        if request.replaces:
            if finished.result.finish_reason == "stop":
                self._histories.rewritten(request.conversation)
        elif self._model.canonical:
            result = finished.result
            self._histories.answered(request.conversation, request.request_id, result)
            self.desk.put(Rewrite(prepared, result))

    def _rewrite(self, ready: RewriteReady) -> None:
        if ready.request is None:
            return
        request = self._histories.takes(ready.conversation, ready.of, ready.request)
        if request is not None:
            self._start(Prepared(request, "canonical"))

    @property
    def _may_tune(self) -> bool:
        """After the first answer, once, and not while something lies on the desk."""
        return self._answered and not self._tuned and not self.desk.busy

    def _idle(self) -> None:
        self._watch.look(self._clock(), seeded=False)
        due = self._saving.due
        if due is not None and due <= self._clock():
            self._saving.save()
            self._watch.tell()
        elif self._may_tune:
            self._tune()

    def _tune(self) -> None:
        self._watch.tell(tuning=True)
        try:
            self._tuned = self._model.upkeep.tune(lambda: not self._inbox.empty())
        except LocalchatError as error:
            LOG.warning("tuning was given up: %s", error)
            self._tuned = True
        self._watch.tell()

    # ---- the end

    def _end(self) -> None:
        """Ends what runs, so that it can be kept, and saves."""
        for request_id in self._running:
            self._engine.cancel(request_id)
        for _ in range(_LAST_STEPS):
            if not self._engine.busy:
                break
            self._step()
        try:
            self._saving.save()
        except LocalchatError:
            pass  # what is not saved is computed again
