"""Passes that are launched before the tokens they go on from are known here.

A backend that chooses tokens where the scores are goes on from them at once. Meanwhile the same
scores are sampled here, by the same rules and random numbers, and made into text. What is sampled
here counts: a pass that went on from anything else is taken back, and so is one behind an answer's
last token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Many
from dataclasses import dataclass

from engine.backends.base import CHOSEN, Backend, Choice, ChosenScores, Row, Scores
from engine.output.random_numbers import uniform
from engine.scheduler import Piece, Plan
from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Flight:
    """A pass that was launched ahead: its rows are written, its sequences do not count them yet."""

    plan: Plan
    scores: Scores
    behind: ChosenScores
    """Of the pass that it follows."""
    started: float | None
    """When its step began, where the step before had run ahead too: else part of its time had
    passed.
    """


class RunAhead:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._most = backend.facts.max_choice
        self._context = backend.facts.context
        self._flight: Flight | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Those in flight."""
        return () if self._flight is None else self._flight.plan.pieces

    def choices(self, plan: Plan) -> list[Choice | None]:
        """How the token behind each piece may be chosen; all None where one of them may not."""
        none: list[Choice | None] = [None] * len(plan.pieces)
        if not self._most or plan.prefill or plan.drafted:
            return none
        found = [self._choice(piece.sequence, piece.sequence.sampled) for piece in plan.pieces]
        return none if None in found else found

    def launch(self, plan: Plan, scores: Scores, started: float | None) -> None:
        """Go on behind a pass whose tokens nobody has read yet, unless one of them ends an answer
        whatever it is. `started` as in `Flight`.
        """
        if not self._most or not isinstance(scores, ChosenScores):
            return
        if any(self._ends(piece.sequence) for piece in plan.pieces):
            return
        rows = [self._row(piece.sequence) for piece in plan.pieces]
        try:
            found = self._backend.forward(rows)
        except Exception:
            # The same pass comes again when the tokens are known, and then it tells.
            self._take_back(plan.pieces)
            return
        self._flight = Flight(plan, found, scores, started)

    def confirm(self, sampled: Iterable[tuple[Piece, list[int | None]]]) -> None:
        """The tokens that were really sampled behind the pass before."""
        flight = self._flight
        if flight is None:
            return
        known = [tokens for _, tokens in sampled]
        if known != [[flight.behind.chosen(index)] for index in range(len(flight.plan.pieces))]:
            self.recall()

    def take(self) -> Flight | None:
        """What was launched, once its tokens are confirmed; the caller counts its rows."""
        flight, self._flight = self._flight, None
        return flight

    def recall(self) -> None:
        """Nothing is ahead afterwards."""
        pieces, self._flight = self.pieces, None
        self._take_back(pieces)

    def counted(self, length_of: Callable[[int], int]) -> Callable[[int], int]:
        """Lengths without the rows in flight, from those that the backend holds."""
        numbers = {piece.sequence.state.number for piece in self.pieces}
        return lambda number: length_of(number) - (number in numbers)

    def _take_back(self, pieces: Many[Piece]) -> None:
        for piece in pieces:
            state = piece.sequence.state
            if state.number is not None:
                state.length = self._backend.truncate(state.number, state.length)

    def _row(self, sequence: Sequence) -> Row:
        state = sequence.state
        assert state.number is not None
        choice = self._choice(sequence, sequence.sampled + 1)
        return Row(state.number, state.length, (CHOSEN,), True, choice=choice, follows=True)

    def _ends(self, sequence: Sequence) -> bool:
        """Whether the token that comes next is the last in any case."""
        limit = sequence.request.limits.max_tokens
        return sequence.sampled + 1 == limit or len(sequence.ids) + 1 >= self._context

    def _choice(self, sequence: Sequence, n: int) -> Choice | None:
        """For token `n` of the answer; None where the sampler looks at more than candidates."""
        one = sequence.request.sampling
        if sequence.recent is not None or one.logit_bias or not sequence.samples:
            return None
        if one.temperature <= 0:
            return Choice(0.0, 1, 1.0, 0.0, 0.0)
        if not 0 < one.top_k <= self._most or one.typical_p < 1.0:
            return None
        number = uniform(one.seed, n)
        return Choice(one.temperature, one.top_k, one.top_p, one.min_p, number)
