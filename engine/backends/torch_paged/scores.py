"""Scores of one pass, kept on the device until somebody asks; what the device has chosen comes by
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import isfinite

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.backends.base import Candidates
from engine.backends.torch_paged.download import Arrival
from models.candidates import HostCandidates, unpacked


class TensorScores:
    def __init__(
        self,
        logits: Tensor,
        places: Sequence[range],
        arrival: Arrival | None = None,
        count: int = 0,
    ) -> None:
        """`logits`: float32 [R, vocab_size]; `places[i]`: the rows of it that belong to row i of
        the batch, none where it wanted none. `arrival`: the `count` best of each row, packed, where
        the device has chosen them already, and the token behind each, where it chose that too.
        """
        self._arrival = arrival
        self._count = count
        self._logits: Tensor | None = logits
        self._places = places
        self._best: dict[int, tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]] = {}

    def row(self, index: int, place: int = -1) -> npt.NDArray[np.float32]:
        at = self._at(index, place)
        row: npt.NDArray[np.float32] = self._all()[at].cpu().numpy()
        # The next pass may write to the same memory.
        return row.copy()

    def candidates(self, index: int, k: int, place: int = -1) -> Candidates:
        at = self._at(index, place)
        if self._arrival is not None and k <= self._count:
            return self._of_device(at, max(k, 0))
        logits = self._all()[at]
        k = min(max(k, 0), len(logits))
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

    @cached_property
    def _arrived(self) -> tuple[HostCandidates, list[int]]:
        """The candidates, and the token behind each row where there is one."""
        assert self._arrival is not None
        packed, *chosen = self._arrival.read()
        return unpacked(packed), [token for part in chosen for token in part.tolist()]

    def _of_device(self, at: int, k: int) -> Candidates:
        """All rows come to the host together, once."""
        chosen = self._arrived[0]
        return Candidates(
            chosen.ids[at, :k],
            chosen.logits[at, :k],
            bool(chosen.finite[at]),
            lambda: float(chosen.log_sum_exp[at]),
        )

    def _top(self, k: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The k largest of every row, NaN before all others, equal ones in any order."""
        if k not in self._best:
            values, ids = self._all().topk(k)
            self._best[k] = values.cpu().numpy(), ids.cpu().numpy()
        return self._best[k]

    def _all(self) -> Tensor:
        if self._logits is None:
            raise ValueError("the next pass has overwritten the scores")
        return self._logits

    def _at(self, index: int, place: int) -> int:
        try:
            return self._places[index][place]
        except IndexError:
            raise ValueError(f"row {index} did not want the scores at {place}") from None


class ChosenTensorScores(TensorScores):
    """Of a pass whose rows may be followed; implements `ChosenScores`."""

    def chosen(self, index: int) -> int:
        return self._arrived[1][index]

    def overtake(self) -> None:
        """The next pass writes to the places of these logits."""
        self._logits = None


def _lowest_of_equals(
    logits: Tensor, values: npt.NDArray[np.float32], ids: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Ids of `values`, of those equal to the smallest the lowest ids."""
    least = values[-1]
    above = ids[: len(values)][values > least]
    equal = (logits == float(least)).nonzero().flatten()[: len(values) - len(above)]
    return np.concatenate([above, equal.cpu().numpy()])
