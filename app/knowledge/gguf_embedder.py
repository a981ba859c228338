"""An embedder of the person's choice: any GGUF embedding model, run by our engine in a process of
its own behind everything else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from app.knowledge.embedder import ENDED, EmbedderFailed, EmbeddingEnded, always
from app.knowledge.pause import Pause
from engine.embedding_client import EmbeddingClient
from engine.error_values import EngineStopped
from engine.errors import LocalchatError
from engine.messages import EmbedderReady

if TYPE_CHECKING:
    from app.knowledge.embedder import Floats

IDLE_S = 60.0


class GGUFEmbedder:
    """Usable from any thread. The model is loaded when it is first needed, and again after a minute
    without work.
    """

    def __init__(self, path: Path, log_path: Path, idle_s: float = IDLE_S) -> None:
        self._client = EmbeddingClient(str(path), log_path)
        self._pause = Pause()
        self._idle_s = idle_s
        self._idle: threading.Timer | None = None
        self._busy = 0
        self._lock = threading.Lock()
        self._known: EmbedderReady | None = None

    @property
    def fingerprint(self) -> str:
        return self._ready.fingerprint

    @property
    def size(self) -> int:
        return self._ready.size

    @property
    def speaks_cjk(self) -> bool:
        return self._ready.speaks_cjk

    @property
    def pid(self) -> int | None:
        return self._client.pid

    def embed_passages(
        self, texts: Sequence[str], is_wanted: Callable[[], bool] = always
    ) -> Floats:
        """[len(texts), size]. Waits while it is paused. Raises EmbeddingEnded, EmbedderFailed."""
        import numpy as np

        return np.stack([self._passage(text, is_wanted) for text in texts])

    def embed_query(self, text: str) -> Floats:
        """[size], at once: a passage that is being computed makes way. Raises EmbedderFailed."""
        self._client.stop_passages()
        return self._embed(text, is_query=True)

    def pause(self) -> None:
        self._pause.begin()
        self._client.stop_passages()

    def resume(self) -> None:
        self._pause.end()

    def wait(self, is_wanted: Callable[[], bool] = always) -> bool:
        return self._pause.wait(is_wanted)

    def close(self) -> None:
        self._pause.close()
        with self._lock:
            self._stop_waiting()
        self._client.close()

    @property
    def _ready(self) -> EmbedderReady:
        if self._known is None:
            with self._working():
                self._known = self._client.ready()
        return self._known

    def _passage(self, text: str, is_wanted: Callable[[], bool]) -> Floats:
        while self._pause.wait(is_wanted):
            try:
                return self._embed(text, is_query=False)
            except EngineStopped:
                continue  # It made way for an answer or a question.
        raise EmbeddingEnded(ENDED)

    def _embed(self, text: str, is_query: bool) -> Floats:
        import numpy as np

        try:
            with self._working():
                return np.frombuffer(self._client.embed(text, is_query), "<f4").astype(np.float32)
        except EngineStopped:
            raise
        except LocalchatError as error:
            raise EmbedderFailed(error.title, error.text, error.next_step) from error

    @contextmanager
    def _working(self) -> Iterator[None]:
        """The process ends when nothing has been asked of it for a while after this."""
        with self._lock:
            self._busy += 1
            self._stop_waiting()
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1
                if not self._busy and not self._pause.is_closed:
                    self._idle = threading.Timer(self._idle_s, self._leave)
                    self._idle.daemon = True
                    self._idle.start()

    def _stop_waiting(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _leave(self) -> None:
        with self._lock:
            if not self._busy:
                self._client.close()
