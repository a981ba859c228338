"""The embedding process' life: greet, load one model, embed until it is told to close.

python -m engine.embedding IN OUT
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from engine.error_values import EngineStopped, info_of
from engine.errors import LocalchatError
from engine.events import Failed
from engine.link import LOAD
from engine.messages import (
    PROTOCOL,
    Cancel,
    Close,
    Embed,
    Embedded,
    EmbedderReady,
    FromWorker,
    Hello,
    Load,
    LoadProgress,
    ToWorker,
)
from engine.pipe import PipeError, Receiver
from engine.worker.main import pipes
from engine.worker.process import prepare_process

if TYPE_CHECKING:
    from engine.embedding.model import EmbeddingModel

LOG = logging.getLogger("localchat.embedding")
NICENESS = 10


def main(arguments: Sequence[str]) -> int:
    """Serve the front end at the other ends of the pipes `arguments` = (in, out)."""
    prepare_process()
    make_way()
    receiver, sender = pipes(int(arguments[0]), int(arguments[1]))
    desk = Desk(receiver)
    try:
        sender.send(Hello(PROTOCOL, os.getpid()))
        threading.Thread(target=desk.run, name="reader", daemon=True).start()
        serve(desk, sender.send)
    except BrokenPipeError:
        LOG.info("the front end is gone")
    return 0


def make_way() -> None:
    """Everything else on the machine goes before this process."""
    if sys.platform == "win32":
        import psutil

        psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
        return
    try:
        os.nice(NICENESS)
    except OSError:
        pass  # A system that does not allow it; it works all the same.


class Desk:
    """What the front end sent, in order; the reader thread's."""

    def __init__(self, receiver: Receiver) -> None:
        self.inbox: SimpleQueue[ToWorker] = SimpleQueue()
        self.model: EmbeddingModel | None = None
        self.is_loading = True
        self._receiver = receiver
        self._lock = threading.Lock()
        self._cancelled: set[str] = set()
        self._current = ""

    def run(self) -> None:
        """Ends the process with the pipe, also in the middle of a native call."""
        try:
            while True:
                self._take(self._receiver.receive())
        except EOFError:
            LOG.info("the front end is gone")
        except PipeError as error:
            LOG.error("%s", error)
        os._exit(0)

    def begin(self, request_id: str) -> bool:
        """Whether a text is still wanted; from now on a cancel interrupts it."""
        with self._lock:
            self._current = request_id
            return request_id not in self._cancelled

    def end(self, request_id: str) -> None:
        with self._lock:
            self._current = ""
            self._cancelled.discard(request_id)

    def _take(self, message: ToWorker | FromWorker) -> None:
        match message:
            case Load() | Embed() | Close():
                if isinstance(message, Close):
                    self.is_loading = False
                self.inbox.put(message)
            case Cancel(request_id=request_id) if request_id == LOAD:
                self.is_loading = False
            case Cancel(request_id=request_id):
                with self._lock:
                    self._cancelled.add(request_id)
                    if self._current == request_id and self.model is not None:
                        self.model.interrupt()


def serve(desk: Desk, send: Callable[[FromWorker], None]) -> None:
    while not isinstance(message := desk.inbox.get(), Close):
        if isinstance(message, Load):
            desk.model = loaded(message, desk, send)
        elif isinstance(message, Embed) and desk.model is not None:
            send(embedded(message, desk, desk.model))
    if desk.model is not None:
        desk.model.close()


def loaded(message: Load, desk: Desk, send: Callable[[FromWorker], None]) -> EmbeddingModel | None:
    """The model, or None after the reason was told."""
    from engine.embedding.header import read_header
    from engine.embedding.model import EmbeddingModel

    def progress(done_bytes: int, total_bytes: int) -> bool:
        send(LoadProgress(done_bytes, total_bytes))
        return desk.is_loading

    try:
        header = read_header(Path(message.path))
        model = EmbeddingModel(header, message.options.threads or spare_threads(), progress)
    except Exception as error:
        if not isinstance(error, LocalchatError):
            LOG.exception("the embedding model could not be loaded")
        send(Failed(LOAD, info_of(error)))
        return None
    speaks_cjk = model.speaks_cjk(header.unknown_id)
    send(EmbedderReady(header.name, header.fingerprint, model.size, speaks_cjk))
    return model


def spare_threads() -> int:
    """One core stays free."""
    from engine.backends.llama_cpp.threads import allowed_cores

    return max(1, allowed_cores() - 1)


def embedded(message: Embed, desk: Desk, model: EmbeddingModel) -> Embedded | Failed:
    request_id = message.request_id
    try:
        if not desk.begin(request_id):
            raise EngineStopped("Embedding was stopped.")
        vector = model.embed(message.text, message.is_query)
        return Embedded(request_id, vector.astype("<f4").tobytes())
    except Exception as error:
        if not isinstance(error, LocalchatError):
            LOG.exception("a text could not be embedded")
        return Failed(request_id, info_of(error))
    finally:
        desk.end(request_id)
