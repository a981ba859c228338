"""The requests that run now, by the chat that they belong to. It stops them and waits for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from engine.client import EngineClient


@dataclass(slots=True)
class Running:
    chat_id: int
    cancelled: threading.Event = field(default_factory=threading.Event)


class RunningRequests:
    """Usable from any thread."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._running: dict[str, Running] = {}
        self._ended = threading.Condition()

    @contextmanager
    def running(self, request_id: str, chat_id: int) -> Iterator[Running]:
        """The request can be stopped for as long as this lasts."""
        running = Running(chat_id)
        with self._ended:
            self._running[request_id] = running
        try:
            yield running
        finally:
            with self._ended:
                del self._running[request_id]
                self._ended.notify_all()

    def cancel(self, chat_id: int | None = None) -> None:
        """Stop what runs, in one chat or everywhere."""
        with self._ended:
            running = [
                (request_id, run)
                for request_id, run in self._running.items()
                if chat_id in (None, run.chat_id)
            ]
        for request_id, run in running:
            run.cancelled.set()
            self._client.cancel(request_id)

    def wait(self, patience_s: float) -> None:
        """Until nothing runs any more, at most so long."""
        with self._ended:
            self._ended.wait_for(lambda: not self._running, patience_s)
