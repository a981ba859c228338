"""The index of one knowledge base: files, documents, chunks, words, and which row holds which
vector. One SQLite file; see `schema.py` for its tables.

Files with the same bytes and ending share one document. This is the searching side, and the
vectors' rows; the writing of files is `catalogue.py`. It reads no file of a person and knows no
embedder.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

from app.knowledge import graph_file, stored_chunks, vector_table, word_table, words
from app.knowledge.catalogue import Catalogue
from app.knowledge.index_file import NAME as INDEX_FILE
from app.knowledge.index_file import IndexFile, open_index_file
from app.knowledge.row_table import RowTable, row_table
from app.knowledge.stored import StoredChunk, ToEmbed, WordHit
from app.knowledge.vector_table import VectorSet
from app.knowledge.vectors import EXACT_ROWS, Vectors
from app.sanitize import single_line

T = TypeVar("T")

IDF_FLOOR = 1e-6
"""As in SQLite's bm25: a word that most chunks hold counts next to nothing."""
FEW = 8
"""Fewer chunks do not tell how rare a word is: there every word weighs the same."""
OUTDATED_SHARE = 0.2
"""A calibration is outdated when the number of chunks has changed by more than this share."""


class Index:
    """Open index; usable from any thread."""

    def __init__(self, folder: Path, reads: IndexFile, writes: IndexFile) -> None:
        self.folder = folder
        self.catalogue = Catalogue(writes)
        self._reads = reads
        self._writes = writes
        self._bound: VectorSet | None = None
        self._free_rows: Iterator[int] = iter(())
        self._known: dict[str, Any] = {}
        self._known_version = -1
        self._known_lock = threading.Lock()
        self._file_identity = identity(folder)
        self.exact_rows = EXACT_ROWS
        """Above so many vectors a graph helps a search."""

    @classmethod
    def open(cls, folder: Path) -> Index:
        """Opens or makes `index.sqlite3` in `folder`. IndexDamaged, IndexNewer, StorageError."""
        return cls(folder, *open_index_file(folder))

    @property
    def is_replaced(self) -> bool:
        """Whether another program has made the file again since it was opened, or removed it."""
        return identity(self.folder) != self._file_identity

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One moment's view of the tables."""
        with self._reads.read() as connection:
            yield connection

    # ---- searching

    def search_words(self, query: str, limit: int) -> list[WordHit]:
        """Chunks that hold any word of `query`, best first."""
        find = word_table.search_few if self.chunk_count < FEW else word_table.search
        with self.read() as connection:
            return find(connection, words.terms(query), limit)

    def idf_sum(self, query: str) -> float:
        """Sum over the query's words of log((N - n + .5) / (n + .5)), never under 1e-6 each, as
        SQLite's bm25 weighs them; N chunks, n of them with the word. One each where chunks are few.
        """
        return sum(self.idf(term) for term in words.weighted(words.terms(query)))

    def idf(self, term: str) -> float:
        """Of one of `words.terms`."""
        total = self.chunk_count
        if total < FEW:
            return 1.0
        held = self._remembered(f"word {term}", lambda reads: word_table.count(reads, term))
        return max(math.log((total - held + 0.5) / (held + 0.5)), IDF_FLOOR)

    @property
    def chunk_count(self) -> int:
        return self._remembered("chunks", stored_chunks.count)

    def chunk(self, ids: Sequence[int]) -> list[StoredChunk]:
        """In the order of `ids`; ids that are gone are left out."""
        with self.read() as connection:
            return stored_chunks.by_ids(connection, ids)

    def document_chunks(self, content_id: int) -> list[StoredChunk]:
        """All chunks of a document in order."""
        with self.read() as connection:
            return stored_chunks.of_document(connection, content_id)

    def content_ids(self, name: str = "") -> list[int]:
        """Documents, newest file first; of the files whose name holds `name` where given."""
        with self.read() as connection:
            return stored_chunks.documents(connection, name)

    def random_sentences(self, count: int) -> list[str]:
        """Sentences of the corpus spread over it; the same for the same content."""
        with self.read() as connection:
            return stored_chunks.sentences(connection, count)

    # ---- vectors

    @property
    def embedder(self) -> str | None:
        """Fingerprint that the vectors in use belong to; None: no vectors."""
        return None if (used := self.vector_set) is None else used.fingerprint

    @property
    def vector_set(self) -> VectorSet | None:
        """That searches use."""
        return self._remembered("set", vector_table.set_in_use)

    def vector_path(self, vector_set: VectorSet) -> Path:
        return self.folder / f"vectors-{vector_set.id}.f32"

    def vectors(self, vector_set: VectorSet) -> Vectors:
        """The file of this set. Close it."""
        with self.read() as connection:
            owner = vector_table.owner(connection, vector_set)
        path = self.vector_path(vector_set)
        return Vectors(path, vector_set.size, owner, self.exact_rows)

    def vector_slots(self) -> dict[int, int]:
        """Chunk id to row of the file in use; chunks without a vector are left out."""
        used = self.vector_set
        if used is None:
            return {}
        with self.read() as connection:
            return dict(vector_table.slots(connection, used.id))

    @property
    def vector_counts(self) -> tuple[int, int]:
        """Chunks with a vector in use, and rows that they stand in: equal texts share one."""
        used = self.vector_set
        if used is None:
            return 0, 0
        return self._remembered("counts", lambda reads: vector_table.counts(reads, used.id))

    def row_table(self) -> RowTable:
        """The same, as a search needs it; kept until the index changes."""
        used = self.vector_set
        set_id = used.id if used is not None else -1
        return self._remembered("rows", lambda reads: row_table(vector_table.slots(reads, set_id)))

    def bind_embedder(self, fingerprint: str, size: int, replace: bool = False) -> VectorSet:
        """Vectors set from now on are this embedder's. EmbedderChanged where others are there and
        `replace` is false; with it the old ones stay in use until `finish_vectors`.
        """
        with self.read() as connection:
            there = vector_table.sets(connection)
        if [(each.fingerprint, each.size) for each in there] == [(fingerprint, size)]:
            (self._bound,) = there
        else:
            with self._writes.write() as connection:
                self._bound = vector_table.bind(
                    connection, fingerprint, size, replace, single_line(self.folder.name)
                )
        vectors = self.vectors(self._bound)
        if self._lacks_rows(self._bound, vectors):
            with self._writes.write() as connection:
                vector_table.forget_rows(connection, self._bound.id, len(vectors))
        held = graph_file.held_rows(vectors.path, vectors.owner)
        with self._writes.read() as connection:
            self._free_rows = vector_table.free_rows(connection, self._bound.id, held)
        return self._bound

    def lacks_rows(self, vectors: Vectors) -> bool:
        """Whether the file in use was lost or cut short; the next embedding makes up for it."""
        used = self.vector_set
        return used is not None and self._lacks_rows(used, vectors)

    def _lacks_rows(self, vector_set: VectorSet, vectors: Vectors) -> bool:
        needed = self._remembered(
            f"rows of {vector_set.id}",
            lambda reads: vector_table.rows_needed(reads, vector_set.id),
        )
        return len(vectors) < needed

    def settle(self) -> None:
        """On return a power cut takes nothing back: rows that are free now may be written anew."""
        self._writes.settle()

    def without_vector(self, limit: int) -> list[ToEmbed]:
        """Texts that the bound embedder has not embedded yet."""
        with self.read() as connection:
            ids = vector_table.without_vector(connection, self._bound_set.id, limit)
            found = stored_chunks.by_ids(connection, ids)
        return [ToEmbed(chunk.id, chunk.embed_text) for chunk in found]

    def count_without_vector(self) -> int:
        with self.read() as connection:
            return vector_table.count_without_vector(connection, self._bound_set.id)

    def free_rows(self, count: int) -> list[int]:
        """Rows of the bound embedder's file that hold nothing; each is given once."""
        return list(islice(self._free_rows, count))

    def set_vectors(self, chunk_ids: Sequence[int], rows: Sequence[int]) -> None:
        """These chunks' texts stand in these rows, which are on the disk already."""
        with self._writes.write() as connection:
            vector_table.put_rows(connection, self._bound_set.id, chunk_ids, rows)

    def finish_vectors(self) -> None:
        """All texts have vectors of the bound embedder: others go."""
        with self.read() as connection:
            is_alone = vector_table.sets(connection) == [replace(self._bound_set, in_use=True)]
        if not is_alone:
            with self._writes.write() as connection:
                vector_table.take_into_use(connection, self._bound_set.id)
            self.settle()
        kept = self.vector_path(self._bound_set)
        for path in self.folder.glob("vectors-*.f32"):
            if path != kept:
                graph_file.remove(path)
                path.unlink(missing_ok=True)

    @property
    def _bound_set(self) -> VectorSet:
        if self._bound is None:
            raise RuntimeError("No embedder is bound.")
        return self._bound

    # ---- what belongs to the whole

    @property
    def calibration(self) -> dict[str, Any] | None:
        """What the search measured on this corpus; None: not yet."""
        found = self._remembered("calibration", _calibration)
        return None if found is None else found["measured"]

    def set_calibration(self, measured: dict[str, Any] | None, embedder: str | None) -> None:
        """`embedder`: fingerprint of the one that it was measured with."""
        found = {"measured": measured, "chunks": self.chunk_count, "embedder": embedder}
        text = None if measured is None else json.dumps(found)
        with self._writes.write() as connection:
            connection.execute("UPDATE meta SET calibration = ?", (text,))

    def needs_calibration(self, embedder: str | None) -> bool:
        """Whether there is none, or it was measured with another embedder, or on a corpus that has
        changed much since.
        """
        found = self._remembered("calibration", _calibration)
        if found is None or found["embedder"] != embedder:
            return True
        return bool(abs(self.chunk_count - found["chunks"]) > OUTDATED_SHARE * found["chunks"])

    def close(self) -> None:
        self._reads.close()
        self._writes.close()

    def _remembered(self, name: str, find: Callable[[Connection], T]) -> T:
        """What `find` gives, asked anew only when the index has changed."""
        with self._known_lock, self.read() as connection:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != self._known_version:
                self._known = {}
                self._known_version = version
            if name not in self._known:
                self._known[name] = find(connection)
            value: T = self._known[name]
            return value


def identity(folder: Path) -> tuple[int, int] | None:
    """Which file the index in this folder is; None: there is none."""
    try:
        status = (folder / INDEX_FILE).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _calibration(connection: Connection) -> dict[str, Any] | None:
    (text,) = connection.execute("SELECT calibration FROM meta").fetchone()
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found
