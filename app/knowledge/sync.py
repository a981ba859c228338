"""Brings the words of an index in step with its roots: scan, hash on doubt, read, cut, store.

What is unchanged is neither read nor embedded again. It can be stopped between any two files and
killed at any moment: what is stored stays true, and the next run does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from app.knowledge.catalogue import Catalogue
from app.knowledge.folder_walk import FoundFile
from app.knowledge.reading_child import ReadingChild
from app.knowledge.root_reading import Counts, RootReading, Stopped
from app.knowledge.scan import Scan, scan
from app.knowledge.states import SyncProgress
from app.sanitize import single_line

T = TypeVar("T")

Report = Callable[[SyncProgress], bool | None]
"""Called often; False stops."""

READ_TRIES = 3
"""A file that changes while it is read is read again this often; the next sync tries anew."""
BATCH = 500
"""Rows of one transaction that stores no text."""


class Sync:
    """One run over all roots."""

    def __init__(
        self, catalogue: Catalogue, child: ReadingChild, report: Report, ours: Sequence[Path]
    ) -> None:
        """`ours`: folders that hold no documents, such as the index itself."""
        self.counts = Counts()
        self.missing_roots: list[Path] = []
        self._catalogue = catalogue
        self._child = child
        self._report = report
        self._ours = tuple(ours)
        self._total = 0
        self._seen: set[Path] = set()

    def run(self, roots: Sequence[Path]) -> None:
        """Raises Stopped, DiskFull and other StorageErrors; what was stored until then stays."""
        self._tell(None)
        self._catalogue.refresh_words(lambda: self._tell(None))
        self.counts.removed += self._catalogue.count_outside(roots)
        ids = self._catalogue.set_roots(roots)
        work = [(root, ids[root], self._scan(root, ids[root])) for root in roots]
        self._total = sum(len(found.to_read) for _, _, found in work)
        for root, root_id, found in work:
            if not found.is_missing:
                self._update(root, root_id, found)
        self._collect()
        if not self.missing_roots:
            self._catalogue.set_synced(time.time())

    def _scan(self, root: Path, root_id: int) -> Scan:
        known = self._catalogue.files(root_id)
        device = self._catalogue.device(root_id)
        found = scan(root, known, device, self._ours, lambda: self._tell(None))
        if found.is_missing:
            self.missing_roots.append(root)
        self._catalogue.set_root_state(root_id, found.device, found.is_missing)
        self.counts.unchanged += found.unchanged
        return found

    def _update(self, root: Path, root_id: int, found: Scan) -> None:
        """What is gone goes first: it must not be found any more while new files are read."""
        for batch in batches(found.gone):
            self._catalogue.remove(root_id, batch)
            self.counts.removed += sum(found.known[relative].hash is not None for relative in batch)
        for left_out in found.left_out:
            self._catalogue.put(root_id, left_out)
        reading = RootReading(self._catalogue, self._child, root, root_id, found.known, self.counts)
        files: Sequence[FoundFile] = found.to_read
        for _ in range(READ_TRIES):
            reading.read(files, self._tell)
            if not (files := reading.take_changed()):
                return
        reading.give_up(files)

    def _collect(self) -> None:
        """Documents whose files are gone or hold others now."""
        for batch in batches(self._catalogue.orphans()):
            self._catalogue.collect(batch)
        self._catalogue.trim()

    def _tell(self, found: FoundFile | None) -> None:
        name = ""
        if found is not None:
            if found.path not in self._seen:
                self._seen.add(found.path)
                self._catalogue.trim()
            name = single_line(found.relative or found.path.name)
        done = max(len(self._seen) - 1, 0)
        if self._report(SyncProgress("reading", done, self._total, name)) is False:
            raise Stopped


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + BATCH] for start in range(0, len(values), BATCH))
