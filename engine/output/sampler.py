"""Scores of one row -> one token.

The chain, in this order; each step works on what the one before left over, with its probabilities
made to sum to 1:

    step                  keeps or does                                              off
    logit_bias            adds to single logits                                      ()
    repeat_penalty        divides positive, multiplies negative logits of tokens     1
                          in the last `repeat_last_n`
    frequency_penalty     subtracts, once for each occurrence there                  0
    presence_penalty      subtracts, once                                            0
    top_k                 the k likeliest                                            0
    typical_p             the tokens closest to the entropy, until mass >= p         1
    top_p                 the likeliest, until mass >= p                             1
    min_p                 those with at least min_p of the likeliest's probability   0
    temperature           divides the logits                                         1
    draw                  random number n of the seed walks the tokens in id order

Temperature 0 is greedy: the likeliest token after the penalties, of equal ones the lowest id.
Candidates are asked for first; the whole row is looked at only where the settings need it, and it
is never sorted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.backends.base import Candidates, Scores
from engine.output.changes import LogitChanges
from engine.output.random_numbers import uniform
from engine.output.selection import Ids, Values, best_place, best_places, mass_places, reached
from engine.request import Sampling

OPEN_CANDIDATES = 256
"""Candidates asked for when top_k does not bound them; nearly every nucleus of a real model is
smaller.
"""
SMALLEST_TEMPERATURE = 1e-6
"""Below this the division would overflow; the likeliest token is then certain anyway."""


class NotFinite(Exception):
    """A logit is NaN or +inf, or none is finite: the row means nothing."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Tokens to choose from."""

    ids: Ids
    logits: Values
    log_sum_exp: float | None = None
    """What the probabilities are relative to; None: the sum over the pool."""
    best_first: bool = False
    """Whether the logits descend, lower id first among equals."""

    @property
    def largest(self) -> float:
        return float(self.logits[0] if self.best_first else self.logits.max())


@dataclass(frozen=True, slots=True)
class ScoresAt:
    """The scores after one token of a row."""

    scores: Scores
    row: int
    place: int = -1

    def whole(self) -> npt.NDArray[np.float32]:
        return self.scores.row(self.row, self.place)

    def best(self, k: int) -> Candidates:
        """Raises NotFinite."""
        candidates = self.scores.candidates(self.row, k, self.place)
        if not candidates.finite:
            raise NotFinite
        return candidates


def sample(scores: ScoresAt, sampling: Sampling, changes: LogitChanges, n: int) -> int:
    """Token `n` of a request. Raises NotFinite."""
    if sampling.temperature <= 0:
        if not len(changes):
            return int(scores.best(1).ids[0])
        pool = _bounded(scores, 1, changes)
        return int(pool.ids[best_place(pool.ids, pool.logits)])
    if sampling.top_k > 0:
        pool = _bounded(scores, sampling.top_k, changes)
    else:
        pool = _open(scores, sampling, changes)
    return draw(pool, sampling, uniform(sampling.seed, n))


def draw(pool: Pool, sampling: Sampling, number: float) -> int:
    """Everything after top_k; `number` is in [0, 1)."""
    pool = _min_p(_top_p(_typical(pool, sampling.typical_p), sampling.top_p), sampling.min_p)
    order = pool.ids.argsort()
    temperature = max(sampling.temperature, SMALLEST_TEMPERATURE)
    walked = np.exp((pool.logits[order] - pool.largest) / temperature).cumsum()
    place = int(walked.searchsorted(number * walked[-1], side="right"))
    return int(pool.ids[order[min(place, len(order) - 1)]])


def _bounded(scores: ScoresAt, k: int, changes: LogitChanges) -> Pool:
    """The k likeliest tokens after the changes."""
    candidates = scores.best(k + len(changes))
    if len(changes) == 0:
        return Pool(candidates.ids, candidates.logits.astype(np.float64), best_first=True)
    if changes.may_raise:
        pool = _with_raised(scores.whole(), candidates, changes)
    else:
        pool = _lowered(candidates, changes)
    best = best_places(pool.ids, pool.logits, k)
    return _finite(Pool(pool.ids[best], pool.logits[best], best_first=True))


def _open(scores: ScoresAt, sampling: Sampling, changes: LogitChanges) -> Pool:
    """Without top_k: the candidates if they hold all that top_p or min_p can leave, else every
    token.
    """
    if len(changes) == 0 and sampling.typical_p >= 1.0:
        candidates = scores.best(OPEN_CANDIDATES)
        pool = Pool(candidates.ids, candidates.logits.astype(np.float64), candidates.log_sum_exp())
        if _covers(pool, sampling):
            return pool
    scores.best(1)
    return _finite(_whole_row(scores.whole(), changes))


def _covers(pool: Pool, sampling: Sampling) -> bool:
    if sampling.top_p < 1.0:
        return float(_weights(pool).sum()) >= sampling.top_p
    least = _least_logit(pool, sampling.min_p)
    return bool(pool.logits[-1] < least)


def _finite(pool: Pool) -> Pool:
    if not math.isfinite(pool.largest):
        raise NotFinite
    return pool


def _lowered(candidates: Candidates, changes: LogitChanges) -> Pool:
    logits = candidates.logits.astype(np.float64)
    changed = changes.tokens
    for place, token_id in enumerate(candidates.ids.tolist()):
        if token_id in changed:
            logits[place] = changes.apply(token_id, float(logits[place]))
    return Pool(candidates.ids, logits)


def _with_raised(
    row: npt.NDArray[np.float32], candidates: Candidates, changes: LogitChanges
) -> Pool:
    """The candidates and every changed token, wherever it stood."""
    ids = np.union1d(candidates.ids, changes.ids())
    logits = [changes.apply(*pair) for pair in zip(ids.tolist(), row[ids].tolist(), strict=True)]
    return Pool(ids, np.array(logits, dtype=np.float64))


def _whole_row(row: npt.NDArray[np.float32], changes: LogitChanges) -> Pool:
    logits = row.astype(np.float64)
    for token_id in changes.ids().tolist():
        logits[token_id] = changes.apply(token_id, float(logits[token_id]))
    return Pool(np.arange(len(logits), dtype=np.int64), logits)


def _typical(pool: Pool, p: float) -> Pool:
    if p >= 1.0:
        return pool
    weights = _weights(pool)
    weights /= weights.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(weights)
        entropy = float(np.where(weights > 0, weights * surprise, 0.0).sum())
    return _take(pool, mass_places(pool.ids, -np.abs(surprise - entropy), weights, p))


def _top_p(pool: Pool, p: float) -> Pool:
    if p >= 1.0:
        return pool
    weights = _weights(pool)
    if pool.best_first and pool.log_sum_exp is None:
        sums = weights.cumsum()
        end = reached(sums, p * sums[-1])
        return Pool(pool.ids[:end], pool.logits[:end], best_first=True)
    total = weights.sum() if pool.log_sum_exp is None else 1.0
    return _take(pool, mass_places(pool.ids, pool.logits, weights, p * total))


def _min_p(pool: Pool, p: float) -> Pool:
    if p <= 0.0:
        return pool
    return _take(pool, np.flatnonzero(pool.logits >= _least_logit(pool, p)))


def _least_logit(pool: Pool, min_p: float) -> float:
    """What min_p asks of a logit."""
    return pool.largest + (math.log(min(min_p, 1.0)) if min_p > 0 else -math.inf)


def _weights(pool: Pool) -> Values:
    base = pool.largest if pool.log_sum_exp is None else pool.log_sum_exp
    weights: Values = np.exp(pool.logits - base)
    return weights


def _take(pool: Pool, places: npt.NDArray[np.intp]) -> Pool:
    return Pool(pool.ids[places], pool.logits[places])
