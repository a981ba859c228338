"""Who advances in the next step, and by how many tokens.

A step is bounded by time, through measured rates: decode rows first, then prompt pieces, by
priority and age. It moves no state and knows no backend.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace

from engine.backends.base import BackendFacts, Choice, Row
from engine.config import EngineConfig
from engine.rates import Rates
from engine.request import Priority
from engine.sequence import Sequence

SMALLEST_PIECE = 16
"""Prompt tokens of a step even where the rate allows fewer: below this the weights are read for
nearly nothing.
"""
SMALLEST_CHUNK = 4
"""With fewer tokens a piece, a single one could be left over again and again."""
UNMEASURED_PIECE = 128
UNMEASURED_PIECE_STREAMING = 32
"""First pieces, before any rate is known."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one sequence in one step."""

    sequence: Sequence
    count: int
    wants_scores: bool
    draft: tuple[int, ...] = ()
    """Tokens that are checked in the same step, behind the only one of a decode row."""

    @property
    def rows(self) -> int:
        return self.count + len(self.draft)

    def row(self, choice: Choice | None) -> Row:
        """For the backend; `choice`: how the token behind it may be chosen."""
        state = self.sequence.state
        assert state.number is not None
        ids = tuple(self.sequence.ids[state.length : state.length + self.count])
        drafts = bool(self.draft)
        return Row(state.number, state.length, ids + self.draft, self.wants_scores, drafts, choice)

    @staticmethod
    def of(sequence: Sequence, count: int) -> Piece:
        """Scores are wanted where the last token of a sequence that samples is in it."""
        return Piece(sequence, count, sequence.samples and count == sequence.pending)


@dataclass(frozen=True, slots=True)
class Plan:
    pieces: tuple[Piece, ...]

    @property
    def drafted(self) -> int:
        return sum(len(piece.draft) for piece in self.pieces)

    @property
    def decode_rows(self) -> int:
        return sum(piece.sequence.decoding for piece in self.pieces)

    @property
    def prefill(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if not piece.sequence.decoding)

    def without_drafts(self) -> Plan:
        return Plan(tuple(replace(piece, draft=()) for piece in self.pieces))


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
        """The first `most` admitted sequences of `active` take part, as far as the time goes."""
        admitted = [sequence for sequence in active if sequence.admitted][:most]
        decoding = [sequence for sequence in admitted if sequence.decoding]
        pieces = [Piece.of(sequence, 1) for sequence in decoding]
        if len(decoding) == len(admitted):
            return Plan(tuple(pieces))
        left_s = self._step_s(admitted, decoding) - (rates.decode_step_s if decoding else 0.0)
        rows = len(pieces)
        for sequence in admitted:
            if sequence.decoding:
                continue
            token_s = rates.prefill_token_s(sequence.state.length)
            wanted = self._affordable(left_s, token_s, bool(decoding), rows == len(decoding))
            count = self._piece(sequence, min(wanted, self._max_rows - rows))
            if count == 0:
                break
            pieces.append(Piece.of(sequence, count))
            left_s -= count * (token_s or 0.0)
            rows += count
        return Plan(tuple(pieces))

    def _step_s(self, admitted: Many[Sequence], decoding: Many[Sequence]) -> float:
        """Background steps are short too, because they must yield at once."""
        streaming = any(s.request.priority is Priority.INTERACTIVE for s in decoding)
        background = all(s.request.priority is Priority.BACKGROUND for s in admitted)
        ms = self._config.step_ms_streaming if streaming or background else self._config.step_ms
        return ms / 1000

    def _affordable(
        self, left_s: float, token_s: float | None, streaming: bool, first: bool
    ) -> int:
        """Prompt tokens for the time that is left; the first prompt of a step always advances."""
        if token_s is None:
            return UNMEASURED_PIECE_STREAMING if streaming else UNMEASURED_PIECE
        affordable = int(left_s / token_s)
        if affordable < SMALLEST_PIECE:
            return SMALLEST_PIECE if first else 0
        return affordable

    def _piece(self, sequence: Sequence, wanted: int) -> int:
        """At most `wanted` tokens, so that neither this piece nor the next ends in one row."""
        to_mark = self._to_mark(sequence)
        wanted = min(wanted, max(self._config.chunk, SMALLEST_CHUNK))
        if wanted >= to_mark:
            wanted = to_mark
        elif wanted >= self._config.micro_batch:
            wanted -= wanted % self._config.micro_batch
        for count in range(wanted, self._least - 1, -1):
            if self._is_fine(count, to_mark - count):
                return count
        return max(wanted, 0)

    def _to_mark(self, sequence: Sequence) -> int:
        """Tokens up to the next restore point; all of them where there is none."""
        remaining = sequence.pending
        before = sequence.prompt_length - self._least - sequence.state.length
        if self._needs_marks and self._least <= before < remaining:
            return before
        return remaining

    def _is_fine(self, count: int, left: int) -> bool:
        if self._least < 2:
            return True
        return left != 1 and count % self._config.micro_batch != 1


def _turn(sequence: Sequence) -> tuple[int, int]:
    return sequence.request.priority, sequence.order
