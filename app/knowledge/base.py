"""One knowledge base: folders of documents, kept in step with an index of them, and asked.

It lies in a folder of ours: `base.json` with its roots, the index, the vectors, locks. Documents
are only read.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import Busy, DiskFull
from app.knowledge import base_status, embedding
from app.knowledge.base_file import add_root, drop_root, read_roots, write_roots
from app.knowledge.embedder import EmbeddingEnded
from app.knowledge.export import export
from app.knowledge.graph_building import GraphBuilding
from app.knowledge.index import Index
from app.knowledge.passage import Retrieved
from app.knowledge.reading_child import ReadingChild
from app.knowledge.root_reading import Stopped
from app.knowledge.states import FileState, Status, SyncProgress, SyncReport
from app.knowledge.sync import Sync
from app.knowledge.sync_lock import PATIENCE_S, is_held, syncing
from app.knowledge.texts import put_texts
from app.knowledge.vector_table import VectorSet
from app.knowledge.vectors import Vectors
from app.paths import make_folder
from engine.errors import LocalchatError

if TYPE_CHECKING:
    from app.knowledge.embedder import Embedder

LOG = logging.getLogger("localchat.knowledge")

Report = Callable[[SyncProgress], bool | None]
"""Called often while a sync runs; False stops it."""

RESCAN_SECONDS = 5.0
"""A question waits this long for documents that have changed; the rest waits for a sync."""


class KnowledgeBase:
    """One open base; usable from any thread. Close it."""

    def __init__(
        self,
        name: str,
        folder: Path,
        index: Index,
        embedder: Embedder | None = None,
        ours: Sequence[Path] = (),
        is_fixed: bool = False,
    ) -> None:
        """`ours`: folders of the program, which hold no documents. `is_fixed`: what it holds was
        put in and follows no folder.
        """
        self.name = name
        self.folder = folder
        self.index = index
        self.embedder = embedder
        self.is_watched = False
        """A watch keeps it in step: questions need not look at the disk."""
        self.ours = (*ours, folder)
        """Folders that hold no documents."""
        self._is_fixed = is_fixed
        self._child = ReadingChild()
        self._is_closed = False
        self._in_use = threading.RLock()
        self._graph = GraphBuilding()
        self._vectors: Vectors | None = None
        self._vectors_lock = threading.Lock()

    @classmethod
    def temporary(
        cls, folder: Path, texts: Mapping[str, str], embedder: Embedder | None = None
    ) -> KnowledgeBase:
        """A throw-away base of named texts in an empty folder, searchable by words on return;
        `sync` embeds it. Who made the folder removes it after `close`.
        """
        write_roots(make_folder(folder), ())
        index = Index.open(folder)
        put_texts(index.catalogue, folder, texts)
        return cls(folder.name, folder, index, embedder, is_fixed=True)

    @property
    def roots(self) -> tuple[Path, ...]:
        return read_roots(self.folder)

    def add(self, root: Path) -> None:
        """A folder or file more; `sync` reads it. KnowledgeError where it is none, or a part of a
        root already. Roots inside it become a part of it.
        """
        add_root(self.folder, root)

    def drop(self, root: Path) -> None:
        """A root less; `sync` takes its files out. KnowledgeError where it is no root."""
        drop_root(self.folder, root)

    # ---- keeping in step

    def sync(
        self,
        report: Report | None = None,
        *,
        lexical_only: bool = False,
        replace_embedder: bool = False,
    ) -> SyncReport:
        """Brings the index in step with the roots, then embeds, then measures for refusals. Can be
        stopped at any moment and goes on from there. Busy where another process is at it;
        EmbedderChanged (after the words are in step) where vectors of another embedder are there
        and `replace_embedder` is false.
        """
        embedder = None if lexical_only else self.embedder
        return self._sync(
            report or ignore, lambda tell: self._embed(embedder, tell, replace_embedder)
        )

    def rescan(self) -> bool:
        """A sync of the words before a question, cut off after some seconds. Whether the index
        holds all documents as they are: not where another process is at it, or the disk is full.
        """
        if self._is_fixed or (self.is_watched and not self.index.is_replaced):
            return True
        end = time.monotonic() + RESCAN_SECONDS

        def is_in_time(progress: SyncProgress) -> bool:
            # Before any file is read the words may be made again, once for a new version: they are
            # waited for, or each question would begin that anew.
            return not progress.total or time.monotonic() < end

        try:
            report = self._sync(is_in_time, lambda tell: 0, 0.0)
        except (Busy, DiskFull):
            return False
        return report.is_complete

    def _sync(
        self, report: Report, embed: Callable[[Report], int], patience_s: float = PATIENCE_S
    ) -> SyncReport:
        """`embed` follows when the words are in step, and gives how many texts it embedded."""
        began = time.monotonic()
        tell = self._until_closed(report)
        roots = self.roots
        with syncing(self.folder, self.name, patience_s), self._in_use:
            self._reopen_if_replaced()
            run = Sync(self.index.catalogue, self._child, tell, self.ours)
            done = SyncReport(is_complete=False)
            with contextlib.suppress(Stopped, EmbeddingEnded):
                if not self._is_fixed:
                    run.run(roots)
                done = replace(done, searchable_after=time.monotonic() - began)
                done = replace(done, embedded=embed(tell), is_complete=True)
            if not self.is_watched:
                self._child.close()
            return replace(
                done,
                **asdict(run.counts),
                missing_roots=tuple(run.missing_roots),
                unfinished=tuple(base_status.files(self.index, unfinished=True)),
            )

    def _reopen_if_replaced(self) -> None:
        """Another program may have rebuilt the index: what is open here is not it any more."""
        if self.index.is_replaced and not self._is_closed:
            old, self.index = self.index, Index.open(self.folder)
            old.close()
            with self._vectors_lock:
                self._vectors = None

    def _until_closed(self, report: Report) -> Report:
        """Stops what runs in another thread when the base is closed."""
        return lambda progress: False if self._is_closed else report(progress)

    def _embed(self, embedder: Embedder | None, tell: Report, replace_embedder: bool) -> int:
        """How many texts. What tells an answer from chance is measured before, for questions that
        come meanwhile, and after.
        """

        embedded = 0

        def is_wanted() -> bool:
            return (
                tell(SyncProgress("embedding", embedded, embedded, is_searchable=True)) is not False
            )

        if not is_wanted():
            raise Stopped
        if self.index.calibration is None:
            self._calibrate(None, is_wanted)
        if embedder is not None:
            embedded = embedding.embed(self.index, embedder, tell, replace_embedder)
        elif self.embedder is not None:
            return 0
        if self.index.needs_calibration(embedder.fingerprint if embedder is not None else None):
            self._calibrate(embedder, is_wanted)
        if embedder is not None and (vectors := self.vectors()) is not None:
            self._graph.update(vectors, self.index.row_table().used, tell, embedder.wait)
        return embedded

    def _calibrate(self, embedder: Embedder | None, is_wanted: Callable[[], bool]) -> None:
        from app.knowledge.calibration import calibrate

        if self.index.chunk_count:
            vectors = self.vectors() if embedder is not None else None
            measured = calibrate(self.index, vectors, embedder, is_wanted)
            self.index.set_calibration(measured, embedder.fingerprint if embedder else None)

    # ---- asking

    def query(
        self, text: str, budget_characters: int = 8000, history_terms: Sequence[str] = ()
    ) -> Retrieved:
        """Passages for a question, from the index as it is (`rescan` first where nothing
        watches).
        """
        from app.knowledge.retrieval import retrieve

        vectors = self.vectors()
        return retrieve(
            self.index,
            vectors,
            self.embedder if vectors is not None else None,
            text,
            budget_characters=budget_characters,
            also=history_terms,
        )

    def vectors(self) -> Vectors | None:
        """Of the embedder in use. None where it is not the one that made them or cannot be started,
        where another program has made the index again (its rows are not those that are known here),
        and where rows were lost.
        """
        used = self.index.vector_set
        if used is None or self._fingerprint() != used.fingerprint:
            return None
        if self.index.is_replaced:
            return None
        opened = self._opened(used)
        return None if self.index.lacks_rows(opened) else opened

    def _fingerprint(self) -> str | None:
        """Of the embedder in use; None where its model is not there now."""
        try:
            return None if self.embedder is None else self.embedder.fingerprint
        except LocalchatError as error:
            LOG.warning("searching by words only: %s", error)
            return None

    def _opened(self, used: VectorSet) -> Vectors:
        with self._vectors_lock:
            if self._vectors is None or self._vectors.path != self.index.vector_path(used):
                self._vectors = self.index.vectors(used)
            return self._vectors

    # ---- telling

    def status(self) -> Status:
        is_syncing = is_held(self.folder)
        used = self.index.vector_set
        vectors = None if used is None else self._opened(used)
        return base_status.status(self.name, self.roots, self.index, vectors, is_syncing)

    def files(self) -> list[FileState]:
        """By name."""
        return base_status.files(self.index)

    def export(self, path: Path) -> None:
        """All chunks with their places as JSON lines."""
        export(self.index, path)

    def close(self) -> None:
        """Stops a sync of another thread first: what it has stored stays."""
        self._is_closed = True
        with self._in_use:
            self._child.close()
            if self._vectors is not None:
                self._vectors.close()
            self.index.close()

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def ignore(value: object) -> None:
    """For what nobody wants to know."""
