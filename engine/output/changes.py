"""What logit bias and penalties do to the logits of single tokens, before any choice is made."""

from __future__ import annotations

from collections.abc import Container, Mapping

import numpy as np
import numpy.typing as npt

from engine.request import Sampling


class LogitChanges:
    """The changed tokens of one step; all others keep their logits."""

    def __init__(self, sampling: Sampling, counts: Mapping[int, int]) -> None:
        """`counts`: occurrences of each token that the penalties look back on."""
        self._sampling = sampling
        self._bias = dict(sampling.logit_bias)
        self._counts = counts if penalises(sampling) else {}

    def __len__(self) -> int:
        """At least the number of changed tokens."""
        return len(self._bias) + len(self._counts)

    @property
    def tokens(self) -> Container[int]:
        """The changed tokens, for many questions."""
        return {*self._bias, *self._counts} if self._bias else self._counts

    @property
    def may_raise(self) -> bool:
        """Whether a logit can become larger, so that a token outside the candidates can become
        one.
        """
        sampling = self._sampling
        raising = (
            sampling.repeat_penalty < 1.0
            or sampling.frequency_penalty < 0.0
            or sampling.presence_penalty < 0.0
        )
        return (raising and bool(self._counts)) or any(bias > 0 for bias in self._bias.values())

    def ids(self) -> npt.NDArray[np.int64]:
        return np.fromiter({*self._bias, *self._counts}, dtype=np.int64)

    def apply(self, token_id: int, logit: float) -> float:
        logit += self._bias.get(token_id, 0.0)
        count = self._counts.get(token_id, 0)
        if count == 0:
            return logit
        sampling = self._sampling
        penalty = sampling.repeat_penalty
        logit = logit / penalty if logit > 0 else logit * penalty
        return logit - count * sampling.frequency_penalty - sampling.presence_penalty


def penalises(sampling: Sampling) -> bool:
    off = (
        sampling.repeat_penalty == 1.0
        and sampling.frequency_penalty == 0.0
        and sampling.presence_penalty == 0.0
    )
    return sampling.repeat_last_n != 0 and not off
