"""Brings the words of an index in step with its roots: scan, hash on doubt, read, cut, store.

What is unchanged is neither read nor embedded again. It can be stopped between any two files and
killed at any moment: what is stored stays true, and the next run does the rest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.errors import file_error
from app.knowledge.catalogue import RULES, Catalogue, FileRecord, suffix_of
from app.knowledge.document import Document, Unreadable
from app.knowledge.file_bytes import FileBytes, file_bytes, found_from, is_same_status
from app.knowledge.folder_walk import FoundFile
from app.knowledge.reading_child import ReadingChild, ReadingStopped
from app.knowledge.scan import Scan, record, scan
from app.knowledge.states import INDEXED, SKIPPED, SyncProgress
from app.sanitize import single_line

T = TypeVar("T")

Report = Callable[[SyncProgress], bool | None]
"""Called often; False stops."""

READ_TRIES = 3
"""A file that changes while it is read is read again this often; the next sync tries anew."""
TRIM_FILES = 200
"""Files between two looks at the length of the log."""
BATCH = 500
"""Rows of one transaction that stores no text."""


class Stopped(Exception):
    """The caller wants no more."""


@dataclass(slots=True)
class Counts:
    """What was done so far."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    parsed: int = 0


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
        self._done = 0
        self._total = 0

    def run(self, roots: Sequence[Path]) -> None:
        """Raises Stopped, DiskFull and other StorageErrors; what was stored until then stays."""
        self._catalogue.refresh_words()
        self._tell(None)
        work = [(root, root_id, self._scan(root, root_id)) for root, root_id in self._ids(roots)]
        self._total = sum(len(found.to_read) for _, _, found in work)
        for root, root_id, found in work:
            if not found.is_missing:
                self._update(root, root_id, found)
        self._collect()
        if not self.missing_roots:
            self._catalogue.set_synced(time.time())

    def _ids(self, roots: Sequence[Path]) -> Iterator[tuple[Path, int]]:
        ids = self._catalogue.set_roots(roots)
        return ((root, ids[root]) for root in roots)

    def _scan(self, root: Path, root_id: int) -> Scan:
        known = self._catalogue.files(root_id)
        found = scan(root, known, self._catalogue.device(root_id), self._ours)
        if found.is_missing:
            self.missing_roots.append(root)
        self._catalogue.set_root_state(root_id, found.device, found.is_missing)
        self.counts.unchanged += found.unchanged
        return found

    def _update(self, root: Path, root_id: int, found: Scan) -> None:
        """What is gone goes first: it must not be found any more while new files are read."""
        known = self._catalogue.files(root_id)
        for batch in batches(found.gone):
            self._catalogue.remove(root_id, batch)
            self.counts.removed += sum(known[relative].size > 0 for relative in batch)
        for left_out in found.left_out:
            self._catalogue.put(root_id, left_out)
        same: list[FileRecord] = []
        for number, file in enumerate(found.to_read):
            self._tell(file)
            before = known.get(os.fsencode(file.relative))
            if (touched := self._read(root, root_id, file, before)) is not None:
                same.append(touched)
            self._done += 1
            if number % TRIM_FILES == TRIM_FILES - 1:
                self._catalogue.trim()
        for records in batches(same):
            self._catalogue.put_all(root_id, records)

    def _read(
        self, root: Path, root_id: int, found: FoundFile, before: FileRecord | None
    ) -> FileRecord | None:
        """Stores the file; or gives its record where only its status has changed."""
        try:
            content = file_bytes(found)
        except FileNotFoundError:
            return None  # Gone since the walk; the next scan takes it out.
        except OSError as error:
            state = SKIPPED + file_error(error).title.lower()
            self._put(root_id, record(found, 0, None, state), None, before)
            return None
        if is_same(content, before):
            self.counts.unchanged += 1
            return as_before(content, before)
        content, result = self._result(root, content)
        document = result if isinstance(result, Document) else None
        if isinstance(result, Unreadable):
            state, content_id = result.state, None
        else:
            state, content_id = INDEXED, self._catalogue.known_content(content.digest)
        stored = record(content.found, content.read_ns, content.digest, state, content_id)
        self._put(root_id, stored, document, before)
        return None

    def _result(
        self, root: Path, content: FileBytes
    ) -> tuple[FileBytes, Document | Unreadable | None]:
        """What the file holds, read whole at one moment; None: the index has its document."""
        for _ in range(READ_TRIES):
            suffix = suffix_of(os.fsencode(content.found.path.name))
            if self._catalogue.known_content(content.digest) is not None:
                return content, None
            if (state := self._catalogue.known_state(content.digest, suffix)) is not None:
                return content, Unreadable(state)
            result = self._parsed(root, content.found)
            try:
                now = content.found.path.lstat()
                if is_same_status(content.found, found_from(content.found.path, "", now)):
                    return content, result
                content = file_bytes(content.found)
            except OSError:
                return content, Unreadable(SKIPPED + "the file is gone")
        return content, Unreadable(SKIPPED + "it changes while it is read")

    def _parsed(self, root: Path, found: FoundFile) -> Document | Unreadable:
        self.counts.parsed += 1
        try:
            return self._child.read(
                found.path, root=root, progress=lambda *pages: self._reported(found)
            )
        except ReadingStopped:
            raise Stopped from None

    def _put(
        self,
        root_id: int,
        file: FileRecord,
        document: Document | None,
        before: FileRecord | None,
    ) -> None:
        self._catalogue.put(root_id, file, document)
        if before is None:
            self.counts.added += 1
        elif (before.hash, before.state) == (file.hash, file.state):
            self.counts.unchanged += 1
        else:
            self.counts.changed += 1

    def _collect(self) -> None:
        """Documents whose files are gone or hold others now."""
        for batch in batches(self._catalogue.orphans()):
            self._catalogue.collect(batch)
        self._catalogue.trim()

    def _tell(self, found: FoundFile | None) -> None:
        if self._reported(found) is False:
            raise Stopped

    def _reported(self, found: FoundFile | None) -> bool | None:
        name = single_line(found.relative or found.path.name) if found is not None else ""
        return self._report(SyncProgress("reading", self._done, self._total, name))


def is_same(content: FileBytes, before: FileRecord | None) -> bool:
    """Whether the index has these bytes of this file, by the rules of today."""
    return before is not None and before.hash == content.digest and before.rules == RULES


def as_before(content: FileBytes, before: FileRecord | None) -> FileRecord:
    """The same document with the status of now."""
    assert before is not None
    return record(content.found, content.read_ns, content.digest, before.state, before.content_id)


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + BATCH] for start in range(0, len(values), BATCH))
