"""The built-in embedder: MiniLM in a process of its own, started when it is first needed.

The front end holds no model and no runtime of one. Texts go over one at a time, so that a pause
takes effect within one text's computing, about 35 ms on one core.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from app.knowledge.embedder import ENDED, EmbedderFailed, EmbeddingEnded, always
from app.knowledge.embedding_process import COMMAND, NEXT_STEP, ChildGone, EmbeddingProcess
from app.knowledge.minilm import FINGERPRINT, SIZE
from app.knowledge.pause import Pause

if TYPE_CHECKING:
    from app.knowledge.embedder import Floats

MOST_CHARACTERS = 4_000
"""Of a text; the model reads 256 tokens, about 1,000."""
KEPT_QUERIES = 64


class MiniLMEmbedder:
    """Usable from any thread; calls run one after the other."""

    fingerprint = FINGERPRINT
    size = SIZE
    speaks_cjk = False

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._pause = Pause()
        self._process: EmbeddingProcess | None = None
        self._queries: dict[str, Floats] = {}

    @property
    def pid(self) -> int | None:
        """Of the running process; None before it starts and after it left."""
        process = self._process
        return process.pid if process is not None and process.is_alive else None

    def embed_passages(
        self, texts: Sequence[str], is_wanted: Callable[[], bool] = always
    ) -> Floats:
        """[len(texts), 384]. Waits while it is paused. Raises EmbeddingEnded, EmbedderFailed."""
        import numpy as np

        vectors = np.empty((len(texts), self.size), np.float32)
        for row, text in enumerate(texts):
            if not self._pause.wait(is_wanted):
                raise EmbeddingEnded(ENDED)
            vectors[row] = self._embed(text)
        return vectors

    def embed_query(self, text: str) -> Floats:
        """[384], at once even while it is paused. Raises EmbedderFailed."""
        if text not in self._queries:
            if len(self._queries) >= KEPT_QUERIES:
                self._queries.clear()
            self._queries[text] = self._embed(text)
        return self._queries[text]

    def pause(self) -> None:
        self._pause.begin()

    def resume(self) -> None:
        self._pause.end()

    def wait(self, is_wanted: Callable[[], bool] = always) -> bool:
        return self._pause.wait(is_wanted)

    def close(self) -> None:
        self._pause.close()
        with self._lock:
            self._end()

    def _embed(self, text: str) -> Floats:
        """Asked twice at most: an idle process may leave just when it is asked."""
        plain = text[:MOST_CHARACTERS].encode("utf-8", "replace").decode()
        with self._lock:
            for _ in range(2):
                if self._pause.is_closed:
                    raise EmbeddingEnded(ENDED)
                try:
                    return self._running().ask(plain)
                except ChildGone:
                    self._end()
        raise EmbedderFailed(
            "A text could not be embedded.", "The process that embeds ended twice.", NEXT_STEP
        )

    def _running(self) -> EmbeddingProcess:
        if self._process is None:
            self._process = EmbeddingProcess(self._command)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()
