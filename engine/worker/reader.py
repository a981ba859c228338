"""The reader thread: what comes over the pipe goes to whoever does it; drafts are counted here.

Never waits for the owner. When the pipe ends the front end is gone, and the process ends at once,
also in the middle of a native call.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from engine.link import LOAD
from engine.messages import (
    Cancel,
    Close,
    Count,
    Counted,
    Drop,
    Dropped,
    FromWorker,
    Load,
    Submit,
    ToWorker,
)
from engine.pipe import PipeError, Receiver
from engine.worker.owner import Owner

LOG = logging.getLogger("localchat.worker")


class Reader:
    """`owner` is set once the model is loaded; until then only Load and Close mean something."""

    def __init__(self, receiver: Receiver, send: Callable[[FromWorker], None]) -> None:
        self._receiver = receiver
        self._send = send
        self.loads: SimpleQueue[Load | Close] = SimpleQueue()
        self.stop_loading = threading.Event()
        self.owner: Owner | None = None

    def run(self) -> None:
        try:
            while True:
                self._handle(self._receiver.receive())
        except EOFError:
            LOG.info("the front end is gone")
        except PipeError as error:
            LOG.error("%s", error)
        except OSError:
            pass  # the pipe to the front end broke while an answer was written
        os._exit(0)

    def _handle(self, message: ToWorker | FromWorker) -> None:
        match message:
            case Load():
                self.loads.put(message)
            case Cancel(request_id=request_id) if request_id == LOAD:
                self.stop_loading.set()
            case Close():
                self.stop_loading.set()
                self.loads.put(message)
        if self.owner is not None:
            self._for_owner(self.owner, message)
        elif isinstance(message, Drop):
            self._send(Dropped(message.conversation))

    def _for_owner(self, owner: Owner, message: ToWorker | FromWorker) -> None:
        match message:
            case Count(count_id=count_id, text=text):
                self._send(Counted(count_id, owner.count(text)))
            case Submit():
                owner.desk.put(message)
            case Cancel() | Drop() | Close():
                owner.put(message)
