"""The engine: requests in, events out; one step at a time.

A step plans, runs the model once, samples and publishes. Everything is bookkeeping over token ids;
it knows no text but the pieces of the vocabulary, no template, no thread and no screen. One thread
owns it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from engine.backends.base import Backend, Parked, Row, Scores
from engine.cache.kept import KeptState
from engine.cache.prefix_cache import PrefixCache
from engine.config import EngineConfig
from engine.error_values import info_of
from engine.errors import Interrupted, OutOfRoom
from engine.events import (
    Delta,
    ErrorInfo,
    Event,
    Failed,
    Finished,
    FinishReason,
    PromptProgress,
    Started,
)
from engine.failure import NOT_FINITE, no_room, refusal
from engine.invariants import check
from engine.new_sequence import new_sequence
from engine.next_tokens import next_tokens, weigh
from engine.outcome import result_of
from engine.output.thinking import Split
from engine.rates import Rates
from engine.request import Priority, Request
from engine.run_ahead import Flight, RunAhead
from engine.scheduler import SMALLEST_PIECE, Piece, Plan, Scheduler
from engine.sequence import Sequence
from engine.speculation import Speculation
from engine.stats import EngineStats
from engine.vocabulary import Vocabulary
from engine.working_set import WorkingSet

Sampled = list[tuple[Piece, list[int | None]]]
"""The next tokens of each sequence that wanted any; None: the scores were not finite."""


class Engine:
    def __init__(
        self,
        backend: Backend,
        vocabulary: Vocabulary,
        config: EngineConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        facts = backend.facts
        self._backend = backend
        self._facts = facts
        self._vocabulary = vocabulary
        self._config = config
        self._clock = clock
        self._scheduler = Scheduler(config, facts)
        self._rates = Rates()
        self._speculation = Speculation(config, facts, self._rates, vocabulary.end_ids)
        self.cache = PrefixCache(config.cache_bytes)
        self._set = WorkingSet(backend, self.cache, config.fingerprint)
        self._ahead = RunAhead(backend)
        self._running: list[Sequence] = []
        self._pending: list[Event] = []
        self._order = 0
        self._planned = Plan(())
        self._computed_tokens = 0
        self._most_at_start = max(facts.max_sequences - 1, 1)
        self._most = self._most_at_start

    # ---- requests

    def submit(self, request: Request) -> None:
        """Take a request in. One that cannot run fails in the next step."""
        cause = refusal(request, self._facts)
        if cause is None and any(s.request.request_id == request.request_id for s in self._running):
            cause = ErrorInfo("usage", "This request id is running already.", request.request_id)
        if cause is not None:
            self._pending.append(Failed(request.request_id, cause))
            return
        self._give_up_rewrites(request)
        self._order += 1
        drafter = self._speculation.drafter(request)
        place = self._vocabulary, self._config.think_tags, drafter, self._clock()
        self._running.append(new_sequence(request, self._order, *place))

    def cancel(self, request_id: str) -> None:
        """End a request in the next step; what was computed of it stays reusable."""
        for sequence in self._running:
            if sequence.request.request_id == request_id:
                sequence.cancelled = True

    @property
    def busy(self) -> bool:
        """Whether a step has anything to do."""
        return bool(self._running or self._pending)

    # ---- the story of a step

    def step(self) -> list[Event]:
        """Advance everything that runs by one batch; what begins or ends before it is told first,
        in a step of its own: a prompt may take long to read.
        """
        events = self._take_pending()
        if not self._goes_on():
            self._ahead.recall()
            events += self._end_cancelled() + self._admit()
            if events:
                return events
            self._planned = self._plan()
        wanted = self._speculation.extend(self._planned)
        flight = self._ahead.take()
        plan, scores, step_events = self._forward(wanted) if flight is None else self._land(flight)
        if scores is not None and self._may_run_ahead(wanted, plan):
            self._ahead.launch(plan, scores, None if flight is None else self._clock())
        try:
            tokens = self._sample(plan, scores)
        except Exception as error:
            # What breaks in a pass that was launched ahead is told when its scores are read.
            return events + step_events + self._fail_step(plan, info_of(error))
        return events + step_events + self._publish(plan, tokens)

    def _goes_on(self) -> bool:
        """Whether the last plan fits this step too, as it does while nothing but decoding goes on.

        Planning looks at everything once more, and costs as much as taking the likeliest token.
        """
        pieces = self._planned.pieces
        return len(pieces) == len(self._running) and all(
            piece.sequence.decoding
            and not piece.sequence.cancelled
            and piece.sequence.state.number is not None
            and piece.count == 1
            for piece in pieces
        )

    def _take_pending(self) -> list[Event]:
        events, self._pending = self._pending, []
        return events

    def _end_cancelled(self) -> list[Event]:
        events: list[Event] = []
        for sequence in [s for s in self._running if s.cancelled]:
            events += self._finish(sequence, "cancelled", Split(), ())
        return events

    def _admit(self) -> list[Event]:
        active = self._scheduler.active(self._running)
        sequence = self._scheduler.next_admission(active)
        if sequence is None:
            return []
        request = sequence.request
        before = [s for s in active if s.admitted and s.request.priority <= request.priority]
        if len(before) >= self._most:
            return []
        if request.pinned:
            self.cache.pin(request.conversation)
        elif request.conversation and request.priority is Priority.INTERACTIVE:
            self.cache.open(request.conversation)
        if request.conversation and request.priority is Priority.INTERACTIVE:
            self._set.kept.shrink()
        started = self._clock()
        self._set.attach(sequence, self._running)
        sequence.clocks.restore_s = self._clock() - started
        reused, restored = sequence.reused_tokens, sequence.restored_tokens
        return [Started(request.request_id, sequence.prompt_length, reused, restored)]

    def _plan(self) -> Plan:
        """A plan whose states are all in the backend."""
        for sequence in self._running:
            if sequence.admitted:
                self._set.rewind(sequence)
        active = self._scheduler.active(self._running)
        while True:
            plan = self._scheduler.plan(active, self._rates, self._most)
            if not plan.pieces or self._set.settle(plan, self._running):
                return plan

    def _forward(self, plan: Plan) -> tuple[Plan, Scores | None, list[Event]]:
        """Run the model once over as much of the plan as there is room for."""
        scores: Scores | None = None
        events: list[Event] = []
        started = self._clock()
        while plan.pieces:
            try:
                scores = self._backend.forward(self._rows(plan))
                events += self._commit(plan, [piece.rows for piece in plan.pieces], started)
                return plan, scores, events
            except Interrupted as stop:
                events += self._commit(plan, list(stop.rows_done), started)
                self._take_back(piece.sequence for piece in plan.pieces if piece.draft)
                return Plan(()), None, events
            except OutOfRoom:
                plan = self._with_room(plan, events)
            except Exception as error:
                events += self._fail_step(plan, info_of(error))
                return Plan(()), None, events
        return plan, None, events

    def _land(self, flight: Flight) -> tuple[Plan, Scores | None, list[Event]]:
        plan = flight.plan
        return plan, flight.scores, self._commit(plan, [1] * len(plan.pieces), flight.started)

    def _may_run_ahead(self, wanted: Plan, plan: Plan) -> bool:
        """Drafts need the newest token, and whoever waits the next step."""
        return not wanted.drafted and len(plan.pieces) == len(self._running)

    def _sample(self, plan: Plan, scores: Scores | None) -> Sampled:
        if scores is None:
            return []
        weigh(plan, scores)
        tokens = [
            (piece, next_tokens(piece, scores, index))
            for index, piece in enumerate(plan.pieces)
            if piece.wants_scores
        ]
        self._ahead.confirm(tokens)
        return tokens

    def _publish(self, plan: Plan, tokens: Sampled) -> list[Event]:
        events: list[Event] = []
        self._speculation.learn(plan, ((piece, len(sampled)) for piece, sampled in tokens))
        for piece, sampled in tokens:
            events += self._advance(piece.sequence, sampled)
        for piece in plan.pieces:
            if not piece.sequence.samples and piece.sequence.pending == 0:
                reason: FinishReason = "stop" if piece.sequence.request.replaces else "length"
                events += self._finish(piece.sequence, reason, Split(), ())
        return events

    # ---- parts of the story

    def _advance(self, sequence: Sequence, tokens: list[int | None]) -> list[Event]:
        """Take the sampled tokens over, up to the first that ends the answer."""
        events: list[Event] = []
        for token in tokens:
            if token is None:
                self._set.discard(sequence)
                return events + self._fail(sequence, NOT_FINITE)
            split, reason = self._take(sequence, token)
            if reason is not None:
                self._take_back([sequence])
                return events + self._finish(sequence, reason, split, (token,))
            delta = Delta(sequence.request.request_id, (token,), split.text, split.reasoning)
            events.append(delta)
        self._take_back([sequence])
        return events

    def _take(self, sequence: Sequence, token: int) -> tuple[Split, FinishReason | None]:
        """The token's text, and why it is the last one."""
        now = self._clock()
        if sequence.sampled == 0:
            sequence.clocks.first_token = now
        sequence.clocks.last_token = now
        sequence.ids.append(token)
        ends = token in self._vocabulary.end_ids
        split = Split() if ends else sequence.answer.push(token)
        return split, self._end_reason(sequence, ends)

    def _take_back(self, sequences: Iterable[Sequence]) -> None:
        """Drafted tokens that were not sampled leave the state, before anybody can reuse it."""
        for sequence in sequences:
            written = sequence.state.length
            self._set.rewind(sequence)
            self._computed_tokens -= written - sequence.state.length

    def _end_reason(self, sequence: Sequence, ends: bool) -> FinishReason | None:
        if ends or sequence.answer.stop_string is not None:
            return "stop"
        if sequence.sampled == sequence.request.limits.max_tokens:
            return "length"
        if len(sequence.ids) >= self._facts.context:
            return "context"
        return None

    def _rows(self, plan: Plan) -> list[Row]:
        choices = self._ahead.choices(plan)
        return [piece.row(how) for piece, how in zip(plan.pieces, choices, strict=True)]

    def _commit(self, plan: Plan, counts: list[int], started: float | None) -> list[Event]:
        """Count what was written as forwarded, learn the rates and tell how far the prompts are.

        `started`: None where the time since means nothing.
        """
        seconds = 0.0 if started is None else self._clock() - started
        if started is not None:
            self._learn(plan, counts, seconds)
        events: list[Event] = []
        for piece, count in zip(plan.pieces, counts, strict=True):
            piece.sequence.state.length += count
            self._computed_tokens += count
            if piece.sequence.prompt_reached < piece.sequence.prompt_length:
                events.append(self._prompt_progress(piece.sequence, seconds))
        return events

    def _learn(self, plan: Plan, counts: list[int], seconds: float) -> None:
        decode_rows, prefill = plan.decode_rows, plan.prefill
        tokens = max(sum(counts) - decode_rows, 0) if prefill else 0
        depth = prefill[0].sequence.state.length if prefill else 0
        self._rates.record(decode_rows, tokens, depth, seconds, plan.drafted)

    def _prompt_progress(self, sequence: Sequence, seconds: float) -> Event:
        total = sequence.prompt_length
        clocks = sequence.clocks
        clocks.prefill_s += seconds
        done = min(sequence.state.length, total)
        sequence.prompt_reached = max(done, sequence.prompt_reached)
        self._set.mark(sequence)
        computed = sequence.prompt_reached - sequence.found_tokens
        speed = computed / clocks.prefill_s if clocks.prefill_s > 0 else 0.0
        return PromptProgress(sequence.request.request_id, done, total, speed)

    # ---- ends

    def _finish(
        self, sequence: Sequence, reason: FinishReason, split: Split, ids: tuple[int, ...]
    ) -> list[Event]:
        request = sequence.request
        self._ahead.recall()
        rest = split + sequence.answer.finish()
        events: list[Event] = []
        if ids or rest != Split():
            events.append(Delta(request.request_id, ids, rest.text, rest.reasoning))
        if request.replaces and reason == "cancelled":
            self._set.discard(sequence)
        else:
            self._set.publish(sequence)
        self._leave(sequence)
        result = result_of(sequence, reason, self._facts.kv_type)
        return [*events, Finished(request.request_id, result)]

    def _fail(self, sequence: Sequence, cause: ErrorInfo) -> list[Event]:
        request_id = sequence.request.request_id
        self._ahead.recall()
        rest = sequence.answer.finish()
        events: list[Event] = []
        if rest != Split():
            events.append(Delta(request_id, (), rest.text, rest.reasoning))
        if sequence.request.replaces:
            self._set.discard(sequence)
        else:
            self._set.publish(sequence)
        self._leave(sequence)
        result = result_of(sequence, "error", self._facts.kv_type)
        return [*events, Failed(request_id, cause, result)]

    def _fail_step(self, plan: Plan, cause: ErrorInfo) -> list[Event]:
        """The backend broke: the requests of this step end, with what was written before it.

        Raises BackendLost where nothing that it holds can be relied on.
        """
        self._backend.require_alive()
        events: list[Event] = []
        for piece in plan.pieces:
            if not self._set.restore_committed(piece.sequence):
                self._set.discard(piece.sequence)
            events += self._fail(piece.sequence, cause)
        return events

    def _with_room(self, plan: Plan, events: list[Event]) -> Plan:
        """A smaller need: no drafts, else kept states parked, else fewer sequences, else a shorter
        piece, else one fails.
        """
        if plan.drafted:
            return plan.without_drafts()
        if self._set.park_kept(self._running):
            return plan
        *first, last = plan.pieces
        if first:
            self._most = len(first)
            self._set.pause(last.sequence)
            return Plan(tuple(first))
        if last.count > SMALLEST_PIECE:
            return Plan((Piece.of(last.sequence, last.count // 2),))
        held = last.sequence.state.length
        events += self._fail(last.sequence, no_room(held, self._facts.context))
        return Plan(())

    def _leave(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._most = self._most_at_start

    def _give_up_rewrites(self, request: Request) -> None:
        """A new turn ends the rewriting of its conversation's history."""
        if request.priority is Priority.BACKGROUND or not request.conversation:
            return
        for sequence in self._running:
            old = sequence.request
            if old.replaces and old.conversation == request.conversation:
                sequence.cancelled = True

    # ---- kept sequences

    def drop(self, conversation: str) -> None:
        """Forget a conversation at once: what runs of it ends, what is kept of it is freed."""
        self._ahead.recall()
        for sequence in [s for s in self._running if s.request.conversation == conversation]:
            self._set.discard(sequence)
            self._pending += self._finish(sequence, "cancelled", Split(), ())
        self._set.kept.drop(conversation)

    def adopt(
        self,
        conversation: str,
        ids: tuple[int, ...],
        parked: Parked,
        fingerprint: str,
        owner: str = "person",
    ) -> bool:
        """Keep a saved state; False if it belongs to another model or setting, or does not fit."""
        if fingerprint != self._config.fingerprint:
            return False
        return self._set.adopt(conversation, ids, parked, owner)

    def export(self, conversation: str) -> KeptState | None:
        """The newest kept state of a conversation, for saving; None if nothing is kept of it."""
        return self._set.export(conversation)

    @property
    def stats(self) -> EngineStats:
        entries = self.cache.entries
        live = sum(entry.state.number is not None for entry in entries)
        room = self._backend.room()
        parked = self.cache.parked_bytes + self._set.paused_bytes(self._running)
        return EngineStats(
            kv_bytes_live=room.bytes_live,
            kv_bytes_parked=parked + room.bytes_parked,
            kept_live=live,
            kept_parked=len(entries) - live,
            running=len(self._running),
            computed_tokens=self._computed_tokens,
            drafted_tokens=self._speculation.drafted_tokens,
            accepted_tokens=self._speculation.accepted_tokens,
            decode_step_ms=1e3 * self._rates.decode_step_s,
        )

    def validate(self, length_of: Callable[[int], int] | None = None) -> None:
        """Raise AssertionError where the books are wrong; `length_of` asks the backend for a
        sequence's length.
        """
        states = [sequence.state for sequence in self._running]
        known = None if length_of is None else self._ahead.counted(length_of)
        check(self._set.residency, self.cache, states, self._facts.max_sequences, known)
