"""Gives each text of an index its vector. It can be stopped and killed between any two batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from app.knowledge.index import Index
from app.knowledge.root_reading import Stopped
from app.knowledge.states import SyncProgress
from app.knowledge.stored import ToEmbed

if TYPE_CHECKING:
    from app.knowledge.vectors import Floats

BATCH = 32
"""Texts: about a second of a small model on one core."""
BATCHES = 32
"""That are asked of the index at once."""


class PassageEmbedder(Protocol):
    """What is needed of an embedder here."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def size(self) -> int: ...
    def embed_passages(self, texts: Sequence[str], is_wanted: Callable[[], bool]) -> Floats: ...


def embed(
    index: Index,
    embedder: PassageEmbedder,
    report: Callable[[SyncProgress], bool | None],
    replace: bool = False,
) -> int:
    """How many texts were embedded. Raises Stopped, EmbedderChanged, and the embedder's errors,
    such as EmbeddingEnded.
    """
    bound = index.bind_embedder(embedder.fingerprint, embedder.size, replace)
    vectors = index.vectors(bound)
    total = index.count_without_vector()
    done = 0
    if total:
        index.settle()

    def is_wanted() -> bool:
        progress = SyncProgress("embedding", done, total, is_searchable=True)
        return report(progress) is not False

    try:
        for batch in batches(index):
            if not is_wanted():
                raise Stopped
            made = embedder.embed_passages([each.text for each in batch], is_wanted)
            rows = index.free_rows(len(batch))
            vectors.write(rows, made)
            index.set_vectors([each.chunk_id for each in batch], rows)
            done += len(batch)
    finally:
        vectors.close()
    index.finish_vectors()
    return done


def batches(index: Index) -> Iterator[list[ToEmbed]]:
    """Until no text is without a vector. Finding out which are reads the whole table: not for each
    batch.
    """
    while found := index.without_vector(BATCH * BATCHES):
        for start in range(0, len(found), BATCH):
            yield found[start : start + BATCH]
