"""What the tests of the paged backend share: feeding, greedy answers, and poison in free blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.backends.base import Row
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.events import Event
from models.kv_storage import fill_blocks
from tests.engine.engine_runs import Rig

POISON = 0xFF
"""A NaN in every format, or in its scale."""

Logits = npt.NDArray[np.float32]


def prompt(count: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(0, 256, count).tolist())


def poison(backend: TorchPagedBackend) -> None:
    """Overwrite everything that no sequence holds, the sentinel too."""
    poison_blocks(backend, free_blocks(backend))


def free_blocks(backend: TorchPagedBackend) -> list[list[int]]:
    """Of each pool, with the sentinel."""
    return [[0, *allocator.free_blocks] for allocator in backend._tables.allocators]


def poison_blocks(backend: TorchPagedBackend, blocks: Sequence[Sequence[int]]) -> None:
    for pool, of_pool in zip(backend._pools, blocks, strict=True):
        fill_blocks(pool, of_pool, POISON)


def check(backend: TorchPagedBackend) -> None:
    backend.validate()
    poison(backend)


def feed(
    backend: TorchPagedBackend, sequence: int, ids: Sequence[int], chunk: int = 1 << 30
) -> Logits:
    """Append all ids in chunks; the scores after the last."""
    scores = None
    for start in range(0, len(ids), chunk):
        piece = tuple(ids[start : start + chunk])
        scores = backend.forward([Row(sequence, backend.length(sequence), piece, True)])
        check(backend)
    assert scores is not None
    return scores.row(0)


def greedy(
    backend: TorchPagedBackend, sequence: int, logits: Logits, count: int
) -> tuple[int, ...]:
    """The likeliest ids after `logits`; all but the last are appended."""
    ids = [int(logits.argmax())]
    while len(ids) < count:
        ids.append(int(feed(backend, sequence, ids[-1:]).argmax()))
    return tuple(ids)


@dataclass
class PagedRig(Rig):
    """The books of the blocks are proven after every step, and free ones overwritten."""

    backend: TorchPagedBackend

    def step(self) -> list[Event]:
        events = super().step()
        check(self.backend)
        return events
