"""Scores of the rows of one forward, on the CPU. Knows nothing of llama.cpp."""

from __future__ import annotations

from math import isfinite

import numpy as np
import numpy.typing as npt

from engine.backends.base import Candidates

_STRIDE = 32


class ArrayScores:
    """Logits [vocab_size] for each row that wanted them, after one or all of its ids."""

    def __init__(self) -> None:
        self._rows: dict[int, list[npt.NDArray[np.float32]]] = {}

    def put(self, index: int, logits: list[npt.NDArray[np.float32]]) -> None:
        self._rows[index] = logits

    def row(self, index: int, place: int = -1) -> npt.NDArray[np.float32]:
        try:
            return self._rows[index][place]
        except (KeyError, IndexError):
            raise ValueError(f"row {index} did not want scores at {place}") from None

    def candidates(self, index: int, k: int, place: int = -1) -> Candidates:
        logits = self.row(index, place)
        # The largest is NaN where any is NaN.
        best = logits.argmax()
        ids = np.array([best]) if k == 1 else best_ids(logits, k)
        finite = isfinite(logits[best])
        return Candidates(ids, logits[ids], finite, lambda: log_sum_exp(logits))


def best_ids(logits: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
    """Ids of the k largest logits, best first, lower id first among equals; k is cut to the row's
    length.
    """
    k = min(max(k, 0), len(logits))
    if k == 0:
        return np.empty(0, np.int64)
    ids = (logits >= _likely_threshold(logits, k)).nonzero()[0]
    if len(ids) < k:
        ids = (logits >= np.partition(logits, -k)[-k]).nonzero()[0]
    if len(ids) < k:  # NaN compares false with everything; the sort below puts it last
        ids = np.arange(len(logits))
    # Stable, so that equal logits keep the order of their ids.
    return ids[(-logits[ids]).argsort(kind="stable")[:k]]


def _likely_threshold(logits: npt.NDArray[np.float32], k: int) -> np.float32:
    """A logit that somewhat more than k others very likely reach, from every 32nd: looking for the
    exact one takes three times as long on a vocabulary of 262,144.
    """
    some = logits[::_STRIDE].copy()
    rank = min(3 * k // _STRIDE + 4, len(some))
    some.partition(len(some) - rank)
    threshold: np.float32 = some[len(some) - rank]
    return threshold


def log_sum_exp(logits: npt.NDArray[np.float32]) -> float:
    """Natural logarithm; not finite when a logit is NaN or +inf."""
    top = logits.max()
    if not np.isfinite(top):
        return float("nan") if np.isnan(top) else float(top)
    return float(top) + float(np.log(np.exp(logits - top).sum(dtype=np.float64)))
