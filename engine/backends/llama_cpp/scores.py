"""Scores of the rows of one forward, on the CPU. Knows nothing of llama.cpp."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.backends.base import Candidates


class ArrayScores:
    """Logits [vocab_size] for each row that wanted them."""

    def __init__(self) -> None:
        self._rows: dict[int, npt.NDArray[np.float32]] = {}

    def put(self, index: int, logits: npt.NDArray[np.float32]) -> None:
        self._rows[index] = logits

    def row(self, index: int) -> npt.NDArray[np.float32]:
        try:
            return self._rows[index]
        except KeyError:
            raise ValueError(f"row {index} did not want scores") from None

    def candidates(self, index: int, k: int) -> Candidates:
        logits = self.row(index)
        ids = best_ids(logits, k)
        return Candidates(ids, logits[ids], log_sum_exp(logits))


def best_ids(logits: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
    """Ids of the k largest logits, best first, lower id first among equals; k is cut to the row's
    length.
    """
    k = min(max(k, 0), len(logits))
    if k == 0:
        return np.empty(0, np.int64)
    if k == 1:
        return np.array([logits.argmax()], np.int64)
    threshold = np.partition(logits, len(logits) - k)[len(logits) - k]
    ids = np.flatnonzero(logits >= threshold)
    if len(ids) < k:  # NaN compares false with everything; the sort below puts it last
        ids = np.arange(len(logits))
    # Stable, so that equal logits keep the order of their ids.
    return ids[np.argsort(-logits[ids], kind="stable")][:k]


def log_sum_exp(logits: npt.NDArray[np.float32]) -> float:
    """Natural logarithm; not finite when a logit is NaN or +inf."""
    top = logits.max()
    if not np.isfinite(top):
        return float("nan") if np.isnan(top) else float(top)
    return float(top) + float(np.log(np.exp(logits - top).sum(dtype=np.float64)))
