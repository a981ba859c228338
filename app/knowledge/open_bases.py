"""The knowledge bases of one run: each is opened once, when it is first asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from app.paths import Paths

if TYPE_CHECKING:
    from app.knowledge.base import KnowledgeBase
    from app.knowledge.bases import KnowledgeBases


class OpenBases:
    """Usable from any thread. Close it."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._guard = threading.RLock()
        self._all: KnowledgeBases | None = None
        self._open: dict[str, KnowledgeBase] = {}
        self._held = 0
        """How many answers are on their way."""

    @property
    def all(self) -> KnowledgeBases:
        """Every base of the data folder, with one embedder for all."""
        from app.startup import knowledge_bases

        with self._guard:
            if self._all is None:
                self._all = knowledge_bases(self._paths)
                if self._all.embedder is not None:
                    for _ in range(self._held):
                        self._all.embedder.pause()
            return self._all

    def get(self, name: str) -> KnowledgeBase:
        """Stays open. NoSuchBase, BadBaseName."""
        from app.knowledge.base_file import checked_name

        name = checked_name(name)
        with self._guard:
            if name not in self._open:
                self._open[name] = self.all.open(name)
            return self._open[name]

    def release(self, name: str) -> None:
        """Closed, so that it can be removed; nothing where it is not open."""
        with self._guard:
            base = self._open.pop(name, None)
        if base is not None:
            base.close()

    def pause(self) -> None:
        """An answer begins: nothing is embedded until as many `resume`."""
        with self._guard:
            self._held += 1
            if self._all is not None and self._all.embedder is not None:
                self._all.embedder.pause()

    def resume(self) -> None:
        with self._guard:
            self._held = max(self._held - 1, 0)
            if self._all is not None and self._all.embedder is not None:
                self._all.embedder.resume()

    def end_embedding(self) -> None:
        """Who waits for vectors waits no more; comes before the end of a watch."""
        if self._all is not None and self._all.embedder is not None:
            self._all.embedder.close()

    def close(self) -> None:
        self.end_embedding()
        for name in list(self._open):
            self.release(name)
