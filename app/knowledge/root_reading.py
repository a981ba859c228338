"""Reads files of one root into the index: hash, known or not, document, stored.

Files are read ahead by the reading process while what it has read is stored.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from app.errors import file_error
from app.knowledge.catalogue import RULES, Catalogue, FileRecord
from app.knowledge.document import Document, Unreadable
from app.knowledge.file_bytes import FileBytes, file_bytes, is_same_status
from app.knowledge.folder_walk import FoundFile, found_from
from app.knowledge.reading_child import ReadingChild, WantedFile
from app.knowledge.scan import record
from app.knowledge.states import INDEXED, SKIPPED

CHANGES = SKIPPED + "it changes while it is read"
GONE = SKIPPED + "the file is gone"

TOUCHED_BATCH = 500
"""Files whose time alone has changed are stored so many at once."""


class Stopped(Exception):
    """The caller wants no more."""


@dataclass(slots=True)
class Counts:
    """What a sync has done so far."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    parsed: int = 0


class RootReading:
    """The files of one root that are new, changed or in doubt."""

    def __init__(
        self,
        catalogue: Catalogue,
        child: ReadingChild,
        root: Path,
        root_id: int,
        known: dict[bytes, FileRecord],
        counts: Counts,
    ) -> None:
        """`known`: the files as the index had them before."""
        self._catalogue = catalogue
        self._child = child
        self._root = root
        self._root_id = root_id
        self._known = known
        self._counts = counts
        self._asked: deque[FileBytes] = deque()
        self._touched: list[FileRecord] = []
        self._changed: list[FoundFile] = []
        self._doubles: list[FoundFile] = []

    def read(self, files: Sequence[FoundFile], tell: Callable[[FoundFile], None]) -> None:
        """Stores all that hold still. `tell` is called with each when its turn comes, and while it
        is read; what it raises ends the reading.
        """
        self._read_all(files, tell)
        while self._doubles:
            # The first of the same bytes is stored by now: nothing is read twice.
            doubles, self._doubles = self._doubles, []
            self._read_all(doubles, lambda found: None)
        self._flush()

    def take_changed(self) -> list[FoundFile]:
        """Files that changed while they were read."""
        changed, self._changed = self._changed, []
        return changed

    def give_up(self, files: Sequence[FoundFile]) -> None:
        """They do not hold still: the next sync tries again."""
        for found in files:
            self._put(record(found, 0, None, CHANGES))

    def _read_all(self, files: Sequence[FoundFile], tell: Callable[[FoundFile], None]) -> None:
        def look(done: int, total: int) -> None:
            if self._asked:
                tell(self._asked[0].found)

        wanted = self._wanted(files, tell)
        # Closed also where storing fails: the error would keep it open, and others would wait.
        with closing(self._child.read_all(wanted, progress=look)) as results:
            for result in results:
                self._counts.parsed += 1
                self._take(self._asked.popleft(), result)

    def _wanted(
        self, files: Sequence[FoundFile], tell: Callable[[FoundFile], None]
    ) -> Iterator[WantedFile]:
        """Those that must be read; all others are stored at once."""
        for found in files:
            tell(found)
            try:
                content = file_bytes(found)
            except OSError as error:
                self._refused(found, error)
                continue
            if any(content.digest == other.digest for other in self._asked):
                self._doubles.append(found)
            elif not self._is_known(content):
                self._asked.append(content)
                yield WantedFile(found.path, self._root, content.found.size)

    def _refused(self, found: FoundFile, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return  # Gone since the walk; the next scan takes it out.
        self._put(record(found, 0, None, SKIPPED + file_error(error).title.lower()))

    def _is_known(self, content: FileBytes) -> bool:
        """Stores a file whose bytes the index knows."""
        before = self._known.get(os.fsencode(content.found.relative))
        if before is not None and before.hash == content.digest and before.rules == RULES:
            self._touch(content, before)
            return True
        if (content_id := self._catalogue.known_content(content.digest)) is not None:
            self._put(of_content(content, INDEXED, content_id))
            return True
        if (state := self._catalogue.known_state(content.digest)) is not None:
            self._put(of_content(content, state))
            return True
        return False

    def _take(self, content: FileBytes, result: Document | Unreadable) -> None:
        """Stores what was read, where it is what was hashed."""
        found = content.found
        try:
            now = found.path.lstat()
        except OSError:
            return self._put(record(found, 0, None, GONE))
        if not is_same_status(found, found_from(found.path, found.relative, now)):
            self._changed.append(found)
        elif isinstance(result, Document):
            self._put(of_content(content, INDEXED), result)
        elif result.is_lasting:
            self._put(of_content(content, result.state))
        else:
            self._put(record(found, 0, None, result.state))

    def _put(self, file: FileRecord, document: Document | None = None) -> None:
        self._catalogue.put(self._root_id, file, document)
        before = self._known.get(file.relative)
        if before is None:
            self._counts.added += 1
        elif (before.hash, before.state) == (file.hash, file.state):
            self._counts.unchanged += 1
        else:
            self._counts.changed += 1

    def _touch(self, content: FileBytes, before: FileRecord) -> None:
        """The same document with the status of now."""
        self._counts.unchanged += 1
        self._touched.append(of_content(content, before.state, before.content_id))
        if len(self._touched) >= TOUCHED_BATCH:
            self._flush()

    def _flush(self) -> None:
        touched, self._touched = self._touched, []
        if touched:
            self._catalogue.put_all(self._root_id, touched)


def of_content(content: FileBytes, state: str, content_id: int | None = None) -> FileRecord:
    return record(content.found, content.read_ns, content.digest, state, content_id)
