"""Which rows of a step carry drafts, and what became of them. It moves no state and samples
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from dataclasses import replace

from engine.backends.base import BackendFacts
from engine.config import EngineConfig
from engine.drafts import LENGTHS, Drafter
from engine.rates import Rates
from engine.request import Request
from engine.scheduler import Piece, Plan


class Speculation:
    def __init__(
        self, config: EngineConfig, facts: BackendFacts, rates: Rates, ends: Container[int]
    ) -> None:
        """`ends`: tokens that end a turn, which are never drafted."""
        self._facts = facts
        self._rates = rates
        self._ends = ends
        self._most = facts.max_draft if config.speculate else 0
        self._step_s = config.step_ms_streaming / 1000
        self.drafted_tokens = 0
        self.accepted_tokens = 0

    def drafter(self, request: Request) -> Drafter | None:
        """None where nothing is drafted: checking several tokens at once may round differently, so
        an answer that must come out the same again is written token by token.
        """
        exact = self._facts.exact_batching or not request.repeatable
        return Drafter() if self._most and exact else None

    def extend(self, plan: Plan) -> Plan:
        """The plan with drafts behind its decode rows; beside a prompt there are none."""
        if not self._most or plan.prefill:
            return plan
        left = most = min(self._most, self._facts.max_rows - len(plan.pieces))
        pieces: list[Piece] = []
        for piece in plan.pieces:
            draft = self._draft(piece, left)
            left -= len(draft)
            pieces.append(replace(piece, draft=draft) if draft else piece)
        return Plan(tuple(pieces)) if left < most else plan

    def learn(self, plan: Plan, sampled: Iterable[tuple[Piece, int]]) -> None:
        """How many tokens each piece's row led to."""
        cost = self._rates.draft_steps(plan.drafted) if plan.drafted else 0.0
        for piece, tokens in sampled:
            drafter = piece.sequence.drafter
            if drafter is None or not piece.sequence.sampled:
                continue
            drafted, accepted = len(piece.draft), tokens - 1
            share = drafted / plan.drafted if drafted else 0.0
            drafter.learn(drafted, accepted, cost * share)
            self.drafted_tokens += drafted
            self.accepted_tokens += accepted

    def _draft(self, piece: Piece, left: int) -> tuple[int, ...]:
        sequence = piece.sequence
        if sequence.drafter is None:
            return ()
        to_context = self._facts.context - len(sequence.ids)
        limit = sequence.request.limits.max_tokens
        to_limit = to_context if limit is None else limit - sequence.sampled
        most = min(left, to_context - 1, to_limit - 1)
        return sequence.drafter.draft(sequence.ids, most, self._ends, self._cost)

    def _cost(self, drafted: int) -> float:
        """Of the shortest draft whatever it is, of longer ones only within the time of a step."""
        steps = self._rates.draft_steps(drafted)
        seconds = (1 + steps) * self._rates.decode_step_s
        return steps if drafted <= LENGTHS[-1] or seconds <= self._step_s else math.inf
