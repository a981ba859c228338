"""Who advances in the next step, and by how many tokens.

A step is bounded by time, through measured rates: decode rows first, then prompt pieces, by
priority and age. It moves no state and knows no backend.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Many
from dataclasses import dataclass

from engine.backends.base import BackendFacts
from engine.config import EngineConfig
from engine.rates import Rates
from engine.request import Priority
from engine.sequence import Sequence

SMALLEST_PIECE = 16
"""Prompt tokens of a step even where the rate allows fewer: below this the weights are read for
nearly nothing.
"""
UNMEASURED_PIECE = 128
UNMEASURED_PIECE_STREAMING = 32
"""First pieces, before any rate is known."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one sequence in one step."""

    sequence: Sequence
    count: int
    wants_scores: bool

    @staticmethod
    def of(sequence: Sequence, count: int) -> Piece:
        """Scores are wanted where the last token of a sequence that samples is in it."""
        return Piece(sequence, count, sequence.samples and count == sequence.pending)


@dataclass(frozen=True, slots=True)
class Plan:
    pieces: tuple[Piece, ...]

    @property
    def decode_rows(self) -> int:
        return sum(piece.sequence.decoding for piece in self.pieces)

    @property
    def prefill(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if not piece.sequence.decoding)


class Scheduler:
    def __init__(self, config: EngineConfig, facts: BackendFacts) -> None:
        self._config = config
        self._max_rows = facts.max_rows
        self._least = max(facts.min_recompute, 1)
        self._needs_marks = facts.needs_marks

    def active(self, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Those that may run now, first come first: background work only while there is no
        other.
        """
        ordered = sorted(sequences, key=_turn)
        if ordered and ordered[0].request.priority < Priority.BACKGROUND:
            return [s for s in ordered if s.request.priority < Priority.BACKGROUND]
        return ordered

    def next_admission(self, active: Many[Sequence]) -> Sequence | None:
        """The first that waits, unless a prompt of the same or a higher priority is still being
        read.
        """
        for sequence in active:
            if not sequence.admitted:
                return sequence
            if not sequence.decoding:
                return None
        return None

    def plan(self, active: Many[Sequence], rates: Rates, most: int) -> Plan:
        """At most `most` sequences of `active` in one step; the admitted ones only."""
        admitted = [sequence for sequence in active if sequence.admitted]
        decoding = [s for s in admitted if s.decoding][: min(most, self._max_rows)]
        pieces = [Piece.of(sequence, 1) for sequence in decoding]
        left_s = self._step_s(admitted, decoding) - (rates.decode_step_s if decoding else 0.0)
        rows = len(pieces)
        for sequence in [s for s in admitted if not s.decoding][: most - len(pieces)]:
            count = self._piece(sequence, rows, left_s, rates, bool(decoding))
            if count == 0:
                break
            pieces.append(Piece.of(sequence, count))
            left_s -= count * (rates.prefill_token_s(sequence.state.length) or 0.0)
            rows += count
        return Plan(tuple(pieces))

    def _step_s(self, admitted: Many[Sequence], decoding: Many[Sequence]) -> float:
        """Background steps are short too, because they must yield at once."""
        streaming = any(s.request.priority is Priority.INTERACTIVE for s in decoding)
        background = all(s.request.priority is Priority.BACKGROUND for s in admitted)
        ms = self._config.step_ms_streaming if streaming or background else self._config.step_ms
        return ms / 1000

    def _piece(
        self, sequence: Sequence, rows: int, left_s: float, rates: Rates, streaming: bool
    ) -> int:
        """Prompt tokens of `sequence` in a step that has `rows` rows already; 0: not in this
        step.
        """
        token_s = rates.prefill_token_s(sequence.state.length)
        if token_s is None:
            affordable = UNMEASURED_PIECE_STREAMING if streaming else UNMEASURED_PIECE
        else:
            affordable = int(left_s / token_s)
        first_piece = rows == 0 or streaming
        if affordable < SMALLEST_PIECE:
            if not first_piece:
                return 0
            affordable = SMALLEST_PIECE
        room = min(self._config.chunk, self._max_rows - rows)
        return self._fitted(self._to_mark(sequence), min(affordable, room), rows)

    def _to_mark(self, sequence: Sequence) -> int:
        """Tokens up to the place where the backend takes a restore point; all of them where there
        is none.
        """
        remaining = sequence.pending
        before = sequence.prompt_length - self._least - sequence.state.length
        if self._needs_marks and self._least <= before < remaining:
            return before
        return remaining

    def _fitted(self, to_mark: int, wanted: int, rows: int) -> int:
        """At most `wanted` tokens, so that neither this step nor the rest ends in a single row."""
        if wanted >= to_mark:
            wanted = to_mark
        elif rows + wanted >= self._config.micro_batch:
            wanted -= (rows + wanted) % self._config.micro_batch
        for count in range(wanted, self._least - 1, -1):
            if self._is_fine(count, to_mark - count, rows):
                return count
        return max(wanted, 0)

    def _is_fine(self, count: int, left: int, rows: int) -> bool:
        if self._least < 2:
            return True
        return (left == 0 or left >= self._least) and (
            (rows + count) % self._config.micro_batch != 1
        )


def _turn(sequence: Sequence) -> tuple[int, int]:
    return sequence.request.priority, sequence.order
