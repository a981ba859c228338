"""Measured speed: how many prompt tokens fit into a given time.

Reading a prompt gets slower with depth, so the rate is kept for each doubling of the depth. It
knows no clock: times are handed in.
"""

from __future__ import annotations

import math

SMALLEST_MEASURED_PIECE = 8
"""Below this a step's fixed cost hides the cost of a token."""
NEWEST_WEIGHT = 0.5
"""Share of the newest measurement in the moving average: two steps after a change the rate is
right.
"""
CLOCK_RESOLUTION_S = 1e-6
"""Least time that a step is taken to have lasted."""
UNMEASURED_DRAFT = 0.5
"""Steps that checking a drafted token is taken to cost before anything was measured."""
SLOWER_WEIGHT = 0.05
"""The same share for a step that took longer than usual, where single steps are compared: what else
the machine does makes steps longer, never shorter.
"""
FADING = 0.998
"""What is left of a draft's measured time after each step without one: a length that took long
while the machine was busy is tried again some time.
"""


class Rates:
    def __init__(self) -> None:
        self._prefill_s: dict[int, float] = {}
        self._decode_s = 0.0
        self._least_decode_s = 0.0
        self._draft_s: dict[int, float] = {}
        """Seconds of steps that checked so many drafted tokens."""

    @property
    def decode_step_s(self) -> float:
        """Seconds of a step that only decodes; 0 while unknown."""
        return self._decode_s

    def prefill_token_s(self, depth: int) -> float | None:
        """Seconds for one prompt token at `depth`, from the nearest measured depth; None while
        unknown.
        """
        if not self._prefill_s:
            return None
        wanted = depth.bit_length()
        return self._prefill_s[min(self._prefill_s, key=lambda known: abs(known - wanted))]

    def draft_steps(self, drafted: int) -> float:
        """Steps of one token that checking so many drafted ones beside it takes; infinite while no
        step was measured.
        """
        step_s = self._least_decode_s
        if step_s == 0.0:
            return math.inf
        seconds = self._draft_s.get(drafted)
        if seconds is None:
            token_s = self.prefill_token_s(0) or UNMEASURED_DRAFT * step_s
            return drafted * token_s / step_s
        return max(seconds / step_s - 1, 0.0)

    def record(
        self,
        decode_rows: int,
        prefill_tokens: int,
        depth: int,
        seconds: float,
        drafted: int = 0,
    ) -> None:
        """Learn from one step; `depth` is where its prompt tokens began, `drafted` how many tokens
        it checked.
        """
        if drafted:
            self._draft_s[drafted] = _usual(self._draft_s.get(drafted, 0.0), seconds)
        elif prefill_tokens == 0:
            self._decode_s = _average(self._decode_s, seconds)
            self._least_decode_s = _usual(self._least_decode_s, seconds)
            for length in self._draft_s:
                self._draft_s[length] *= FADING
        elif prefill_tokens >= SMALLEST_MEASURED_PIECE:
            decode_s = self._decode_s if decode_rows else 0.0
            spent_s = max(seconds - decode_s, 0.1 * seconds, CLOCK_RESOLUTION_S)
            token_s = spent_s / prefill_tokens
            bucket = depth.bit_length()
            self._prefill_s[bucket] = _average(self._prefill_s.get(bucket, 0.0), token_s)


def _usual(old: float, new: float) -> float:
    """Follows shorter times at once and longer ones slowly."""
    new = max(new, CLOCK_RESOLUTION_S)
    return new if new < old or old == 0.0 else old + SLOWER_WEIGHT * (new - old)


def _average(old: float, new: float) -> float:
    return new if old == 0.0 else old + NEWEST_WEIGHT * (new - old)
