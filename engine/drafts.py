"""Guesses at the next tokens: what followed the same words further up in the conversation.

An answer that quotes its prompt, a document or itself is written several tokens a step this way.
Guesses are checked by the sampler itself, so they decide nothing but the speed. Time is counted in
steps of one token; it knows no clock, no backend and no text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container

LENGTHS = (15, 7, 3)
"""Tokens of a draft. With the sampled one before them these are whole groups of four rows, of which
a CPU computes all in the time of one more.
"""
LONG_MATCH = 8
"""Equal tokens before a guess is dared."""
SHORT_MATCH = 3
"""Equal tokens that are enough while most guesses come true."""
TRUSTED = 0.6
"""Share of drafted tokens that came true, from which on short matches are enough."""
NEWEST_WEIGHT = 0.5
FIRST_CREDIT = 4.0
"""Steps that may be lost before anything was gained."""
CREDIT_PER_STEP = 0.01
"""What each step without a draft adds: wrong guesses cost 1 % of an answer's time at most, and are
tried again when the time for them has been earned.
"""
MOST_CREDIT = 16.0
LEAST_SPEED = 1.1
"""What a draft has to promise, over writing one by one."""


class Runs:
    """Where each run of `length` tokens ended last; every token is looked at once."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._ends: dict[int, int] = {}
        self._next = length

    def last(self, ids: list[int]) -> int | None:
        """Where the run that ends `ids` ended before. `ids` only grow from call to call."""
        length = self._length
        if len(ids) < length:
            return None
        for end in range(self._next, len(ids)):
            self._ends[hash(tuple(ids[end - length : end]))] = end
        self._next = len(ids)
        return self._ends.get(hash(tuple(ids[-length:])))


class Drafter:
    """The drafts of one answer, as long as its credit pays for them.

    A draft costs time whether it comes true or not; what comes true saves a step for each token.
    The balance bounds the next length, so drafts grow while they succeed, shrink when they fail,
    and the answer is never slower than without them by more than the credit given.
    """

    def __init__(self) -> None:
        self.drafted = 0
        self.accepted = 0
        self._credit = FIRST_CREDIT
        self._share: float | None = None
        """Of the drafted tokens lately, those that came true; None: nothing was drafted yet."""
        self._long = Runs(LONG_MATCH)
        self._short = Runs(SHORT_MATCH)

    def draft(
        self, ids: list[int], most: int, ends: Container[int], cost: Callable[[int], float]
    ) -> tuple[int, ...]:
        """At most `most` tokens that may follow `ids`, none of them in `ends`; empty: no guess.

        `cost` tells how many steps the checking of so many tokens takes.
        """
        place = self._long.last(ids)
        if place is None and self._share is not None and self._share >= TRUSTED:
            place = self._short.last(ids)
        if place is None:
            return ()
        following = _following(ids, place, min(most, LENGTHS[0]), ends)
        return tuple(following[: self._length(len(following), cost)])

    def _length(self, most: int, cost: Callable[[int], float]) -> int:
        """The affordable length that promises the most tokens for its time; 0: one by one is
        faster. How often guesses failed is not held against the next one: the credit is.
        """
        share = 1.0 if self._share is None else max(self._share, TRUSTED)
        best, best_speed = 0, LEAST_SPEED
        for length in LENGTHS:
            steps = cost(length) if length <= most else math.inf
            speed = (1 + share * length) / (1 + steps)
            if steps <= self._credit and speed > best_speed:
                best, best_speed = length, speed
        return best

    def learn(self, drafted: int, accepted: int, cost: float) -> None:
        """What came true of the last step's draft, and the steps its checking took."""
        gained = accepted - cost if drafted else CREDIT_PER_STEP
        self._credit = min(self._credit + gained, MOST_CREDIT)
        if drafted:
            self.drafted += drafted
            self.accepted += accepted
            share = accepted / drafted
            old = share if self._share is None else self._share
            self._share = old + NEWEST_WEIGHT * (share - old)


def _following(ids: list[int], place: int, most: int, ends: Container[int]) -> list[int]:
    """What followed at `place`; where that reaches the end of `ids`, it goes on as it began."""
    period = len(ids) - place
    following: list[int] = []
    for offset in range(most):
        token = ids[place + offset % period]
        if token in ends:
            break
        following.append(token)
    return following
