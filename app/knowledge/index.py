"""The index of one knowledge base: files, documents, chunks, words, and which row holds which
vector. One SQLite file; see `schema.py` for its tables.

Files with the same bytes share one document. A document's changes are one transaction. It reads no
file of a person and knows no embedder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.knowledge.stored import StoredChunk, ToEmbed, WordHit


class Index:
    """Open index; usable from any thread."""

    @classmethod
    def open(cls, folder: Path) -> Index:
        """Opens or makes `index.sqlite3` in `folder`. IndexDamaged, IndexNewer, StorageError."""
        raise NotImplementedError

    # ---- searching

    def search_words(self, query: str, limit: int) -> list[WordHit]:
        """Chunks that hold any word of `query`, best first."""
        raise NotImplementedError

    def idf_sum(self, query: str) -> float:
        """Sum over the query's words of log((N - n + .5) / (n + .5)), never under 1e-6 each, as
        SQLite's bm25 weighs them; N chunks, n of them with the word.
        """
        raise NotImplementedError

    def chunk(self, ids: Sequence[int]) -> list[StoredChunk]:
        """In the order of `ids`; ids that are gone are left out."""
        raise NotImplementedError

    def document_chunks(self, content_id: int) -> list[StoredChunk]:
        """All chunks of a document in order."""
        raise NotImplementedError

    def document_text(self, content_id: int) -> str:
        """Its text; white space between chunks is newlines, offsets are kept."""
        raise NotImplementedError

    def content_ids(self, name: str = "") -> list[int]:
        """Documents, newest file first; of the files whose name holds `name` where given."""
        raise NotImplementedError

    @property
    def chunk_count(self) -> int:
        raise NotImplementedError

    def random_sentences(self, count: int) -> list[str]:
        """Sentences of the corpus spread over it; the same for the same content."""
        raise NotImplementedError

    # ---- vectors

    @property
    def embedder(self) -> str | None:
        """Fingerprint that the vectors in use belong to; None: no vectors."""
        raise NotImplementedError

    @property
    def embedder_size(self) -> int:
        """Numbers in a vector; 0 without one."""
        raise NotImplementedError

    def bind_embedder(self, fingerprint: str, size: int, replace: bool = False) -> None:
        """Vectors set from now on are this embedder's. EmbedderChanged where others are there and
        `replace` is false; with it the old ones stay in use until all texts have new ones.
        """
        raise NotImplementedError

    def without_vector(self, limit: int) -> list[ToEmbed]:
        """Texts that the bound embedder has not embedded yet."""
        raise NotImplementedError

    def free_rows(self, count: int) -> list[int]:
        """Rows of the bound embedder's file that hold nothing."""
        raise NotImplementedError

    def set_vectors(self, chunk_ids: Sequence[int], rows: Sequence[int]) -> None:
        """These chunks' texts stand in these rows, which are on the disk already."""
        raise NotImplementedError

    def vector_slots(self) -> dict[int, int]:
        """Chunk id to row of the file in use; chunks without a vector are left out."""
        raise NotImplementedError

    # ---- what belongs to the whole

    @property
    def calibration(self) -> dict[str, Any] | None:
        """What the search measured on this corpus; None: not yet, or outdated."""
        raise NotImplementedError

    @calibration.setter
    def calibration(self, value: dict[str, Any] | None) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
