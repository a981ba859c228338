"""Scores of one pass, kept on the device until somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.backends.base import Candidates
from models.candidates import HostCandidates, unpacked


class TensorScores:
    def __init__(
        self, logits: Tensor, places: Sequence[range], packed: Tensor | None = None
    ) -> None:
        """`logits`: float32 [R, vocab_size]; `places[i]`: the rows of it that belong to row i of
        the batch, none where it wanted none. `packed`: the best of each row, where the device has
        chosen them already.
        """
        self._packed = packed
        self._chosen: HostCandidates | None = None
        self._logits = logits
        self._places = places
        self._best: dict[int, tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]] = {}

    def row(self, index: int, place: int = -1) -> npt.NDArray[np.float32]:
        row: npt.NDArray[np.float32] = self._logits[self._at(index, place)].cpu().numpy()
        # The next pass may write to the same memory.
        return row.copy()

    def candidates(self, index: int, k: int, place: int = -1) -> Candidates:
        at = self._at(index, place)
        logits = self._logits[at]
        k = min(max(k, 0), len(logits))
        if self._packed is not None and k < self._packed.shape[1]:
            return self._of_device(at, k)
        # One more shows whether an equal one was left out; the step's rows go to the host together.
        values, ids = (part[at] for part in self._top(min(k + 1, len(logits))))
        finite = isfinite(values[0])
        if finite and 0 < k < len(values) and values[k] == values[k - 1]:
            ids = _lowest_of_equals(logits, values[:k], ids)
        order = np.lexsort((ids[:k], -values[:k]))
        return Candidates(
            ids[:k][order],
            values[:k][order],
            finite,
            lambda: float(torch.logsumexp(logits.double(), 0)),
        )

    def _of_device(self, at: int, k: int) -> Candidates:
        """All rows come to the host together, once."""
        if self._chosen is None and self._packed is not None:
            self._chosen = unpacked(self._packed.cpu().numpy())
        chosen = self._chosen
        assert chosen is not None
        return Candidates(
            chosen.ids[at, :k],
            chosen.logits[at, :k],
            bool(chosen.finite[at]),
            lambda: float(chosen.log_sum_exp[at]),
        )

    def _top(self, k: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The k largest of every row, NaN before all others, equal ones in any order."""
        if k not in self._best:
            values, ids = self._logits.topk(k)
            self._best[k] = values.cpu().numpy(), ids.cpu().numpy()
        return self._best[k]

    def _at(self, index: int, place: int) -> int:
        try:
            return self._places[index][place]
        except IndexError:
            raise ValueError(f"row {index} did not want the scores at {place}") from None


def _lowest_of_equals(
    logits: Tensor, values: npt.NDArray[np.float32], ids: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Ids of `values`, of those equal to the smallest the lowest ids."""
    least = values[-1]
    above = ids[: len(values)][values > least]
    equal = (logits == float(least)).nonzero().flatten()[: len(values) - len(above)]
    return np.concatenate([above, equal.cpu().numpy()])
