"""The worker's life: greet, load one model, work until it is told to close.

    python -m engine.worker IN OUT

IN and OUT are the inherited ends of two pipes. Standard output and error are the log file.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from engine.error_values import EngineStopped, info_of
from engine.errors import BackendLost, LocalchatError
from engine.events import Failed
from engine.link import LOAD
from engine.messages import PROTOCOL, Close, FromWorker, Hello, Load, LoadProgress
from engine.pipe import Receiver, Sender
from engine.worker.model import Loader, Model
from engine.worker.owner import Owner
from engine.worker.process import prepare_process
from engine.worker.reader import Reader

LOG = logging.getLogger("localchat.worker")
_PROGRESS_EVERY_S = 0.1


def main(arguments: Sequence[str], load: Loader) -> int:
    """Serve the front end at the other ends of the pipes `arguments` = (in, out)."""
    prepare_process()
    receiver, sender = pipes(int(arguments[0]), int(arguments[1]))
    reader = Reader(receiver, sender.send)
    try:
        sender.send(Hello(PROTOCOL, os.getpid()))
        threading.Thread(target=reader.run, name="reader", daemon=True).start()
        _serve(reader, sender.send, load)
    except BrokenPipeError:
        LOG.info("the front end is gone")
    except Exception:
        LOG.exception("the engine broke")
        return 1
    return 0


def pipes(reading: int, writing: int) -> tuple[Receiver, Sender]:
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return Receiver(PipeConnection(reading)), Sender(PipeConnection(writing))
    return Receiver(Connection(reading, writable=False)), Sender(
        Connection(writing, readable=False)
    )


def _serve(reader: Reader, send: Callable[[FromWorker], None], load: Loader) -> None:
    while isinstance(message := reader.loads.get(), Load):
        model = _loaded(message, reader, send, load)
        if model is not None:
            _work(model, reader, send)
            return
    assert isinstance(message, Close)


def _loaded(
    message: Load, reader: Reader, send: Callable[[FromWorker], None], load: Loader
) -> Model | None:
    """The model, or None after the reason was told."""
    try:
        model = load(message, _progress(reader, send))
        if reader.stop_loading.is_set():
            model.close()
            raise EngineStopped("Loading was stopped.")
        return model
    except Exception as error:
        if not isinstance(error, LocalchatError):
            LOG.exception("the model could not be loaded")
        send(Failed(LOAD, info_of(error)))
        return None


def _progress(reader: Reader, send: Callable[[FromWorker], None]) -> Callable[[int, int], bool]:
    told_at = -_PROGRESS_EVERY_S

    def progress(done_bytes: int, total_bytes: int) -> bool:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at >= _PROGRESS_EVERY_S or done_bytes == total_bytes:
            told_at = now
            send(LoadProgress(done_bytes, total_bytes))
        return not reader.stop_loading.is_set()

    return progress


def _work(model: Model, reader: Reader, send: Callable[[FromWorker], None]) -> None:
    owner = Owner(model, send)
    threading.Thread(target=owner.desk.run, name="desk", daemon=True).start()
    reader.owner = owner
    if reader.stop_loading.is_set():  # a Close that came before the reader knew the owner
        owner.put(Close())
    send(model.loaded)
    try:
        owner.run()
    except BackendLost as error:
        LOG.error("%s", error)
        # To free what lies on a lost device aborts, or never ends.
        os._exit(1)
    finally:
        owner.desk.close()
        model.close()
