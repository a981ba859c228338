"""What the tests of the llama.cpp backend share: opening, prompts, and the cold answer to compare
with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.backends.base import Row
from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.loader import load_model
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import BackendOptions, ContextSettings

Logits = npt.NDArray[np.float32]
TINY_BYTES = 10_000_000


@contextmanager
def opened_model(path: Path) -> Iterator[LoadedModel]:
    model = load_model(path, BackendOptions(), lambda _done, _total: True)
    try:
        yield model
    finally:
        model.close()


@contextmanager
def opened_backend(
    model: LoadedModel, context: int = 4096, **settings: Any
) -> Iterator[LlamaCppBackend]:
    if model.weights_bytes < TINY_BYTES:
        # A second thread would only wait, and spin on a core that other tests use.
        settings.setdefault("threads", 1)
    backend = LlamaCppBackend(model, ContextSettings(context, **settings))
    try:
        yield backend
    finally:
        backend.close()


def prompt(count: int, seed: int = 0, vocab: int = 90) -> tuple[int, ...]:
    return tuple(int(i) for i in np.random.default_rng(seed).integers(3, vocab, count))


def feed(backend: LlamaCppBackend, sequence: int, ids: tuple[int, ...], chunk: int = 512) -> Logits:
    """Append all ids in chunks; the scores after the last."""
    scores = None
    for start in range(0, len(ids), chunk):
        piece = ids[start : start + chunk]
        at = backend.length(sequence)
        scores = backend.forward([Row(sequence, at, piece, start + chunk >= len(ids))])
    assert scores is not None
    return scores.row(0)


def cold(backend: LlamaCppBackend, ids: tuple[int, ...]) -> Logits:
    """Scores of an empty backend's first sequence; the backend is empty again afterwards."""
    logits = feed(backend, 0, ids)
    backend.drop(0)
    return logits


def greedy(
    backend: LlamaCppBackend, sequence: int, logits: Logits, count: int
) -> tuple[list[int], list[float]]:
    """Greedy ids, and the distance between the best and the second logit before each."""
    ids: list[int] = []
    margins: list[float] = []
    for _ in range(count):
        second, first = np.partition(logits, -2)[-2:]
        margins.append(float(first - second))
        ids.append(int(logits.argmax()))
        row = Row(sequence, backend.length(sequence), (ids[-1],), True)
        logits = backend.forward([row]).row(0)
    return ids, margins


def equal_up_to_a_close_call(
    ours: list[int], cold_ids: list[int], cold_margins: list[float], close: float = 0.5
) -> bool:
    """Equal ids up to the first position at which the cold run's two best logits are close."""
    for mine, theirs, margin in zip(ours, cold_ids, cold_margins, strict=True):
        if mine != theirs:
            return margin < close
    return True
