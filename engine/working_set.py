"""Which states the backend holds for the next step.

New prompts are attached to what is kept, paused and kept states are parked, finished ones are
published. It does not choose who runs and never looks at scores.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.backends.base import Backend, Parked
from engine.cache.kept import IdArray, KeptState, Match
from engine.cache.kept_states import KeptStates, adopted_sequence, kept_sequence
from engine.cache.prefix_cache import PrefixCache, reuse_break
from engine.cache.residency import Residency, State
from engine.errors import OutOfRoom
from engine.request import Request
from engine.scheduler import Plan
from engine.sequence import Sequence


class WorkingSet:
    def __init__(self, backend: Backend, cache: PrefixCache, fingerprint: str) -> None:
        self._facts = backend.facts
        self._backend = backend
        self._cache = cache
        self._fingerprint = fingerprint
        self._least = max(backend.facts.min_recompute, 1)
        self.residency = Residency(backend)
        self.kept = KeptStates(cache, self.residency, backend.facts)

    # ---- before a step

    def attach(self, sequence: Sequence, running: Iterable[Sequence]) -> None:
        """Give a new request the state that saves it the most."""
        request = sequence.request
        ids = np.array(request.ids, dtype=np.int32)
        self._clear_a_number(running)
        limit = self._reuse_limit(request)
        matches = self.kept.find(request.owner, self._fingerprint, ids, limit)
        sequence.reuse_break = reuse_break(matches, request.conversation, ids, request.parts)
        matches += self._matches_in_use(request, running, ids, limit)
        for match in sorted(matches, key=lambda match: match.usable, reverse=True):
            if match.usable == 0 or self._use(sequence, match, running):
                break
        sequence.admitted = True
        sequence.prompt_reached = sequence.state.length
        self._pay_for_points()

    def settle(self, plan: Plan, running: Iterable[Sequence]) -> bool:
        """The plan's sequences are live afterwards, and no others where those would slow it down.
        False: a state came back shorter, so plan again.
        """
        working = {id(piece.sequence.state) for piece in plan.pieces}
        idle = any(id(state) not in working for state in self.residency.live)
        if idle and not self._facts.idle_is_free:
            self.park_kept(running)
            for sequence in running:
                if id(sequence.state) not in working:
                    self._pause(sequence.state)
        placed = [self._place(piece.sequence.state, running) for piece in plan.pieces]
        self._pay_for_points()
        return all(placed)

    def rewind(self, sequence: Sequence) -> None:
        """After an interruption: leave enough tokens to forward that scores come out, as any
        prefill would.
        """
        state = sequence.state
        least = 1 if sequence.sampled else min(self._least, sequence.prompt_length)
        if state.number is not None and sequence.samples and sequence.pending < least:
            self.residency.truncate(state, len(sequence.ids) - least)

    def park_kept(self, running: Iterable[Sequence]) -> bool:
        """Whether there was any kept state in the backend."""
        live = len(self.residency.live)
        self.kept.park_all(self.paused_bytes(running))
        return len(self.residency.live) < live

    def pause(self, sequence: Sequence) -> None:
        self._pause(sequence.state)

    # ---- after a step

    def mark(self, sequence: Sequence) -> None:
        """A restore point near the end of the prompt."""
        number = sequence.state.number
        if number is not None and sequence.state.length == sequence.prompt_length - self._least:
            self._backend.mark(number)
            self._pay_for_points()

    def publish(self, sequence: Sequence) -> None:
        """Keep what was forwarded, where the request wants that; else forget it."""
        request = sequence.request
        state = sequence.state
        sequence.state = State()
        if state.length == 0 or not request.conversation or not request.keep:
            self.residency.release(state)
            return
        entry = kept_sequence(
            request.owner, request.conversation, self._fingerprint, sequence.ids, state
        )
        if request.replaces:
            self.kept.replace(entry)
        else:
            self.kept.publish(entry)

    def discard(self, sequence: Sequence) -> None:
        state = sequence.state
        sequence.state = State()
        self.residency.release(state)

    def restore_committed(self, sequence: Sequence) -> bool:
        """After a failed step: cut to what was written before it. False: nothing can be relied
        on.
        """
        state = sequence.state
        if state.number is None:
            return True
        wanted = state.length
        try:
            state.length = self._backend.truncate(state.number, wanted)
        except Exception:
            return False
        return state.length <= wanted

    # ---- kept sequences

    def adopt(self, conversation: str, ids: tuple[int, ...], parked: Parked, owner: str) -> bool:
        fits = parked.byte_count <= self._cache.budget_bytes
        if parked.length == 0 or len(ids) != parked.length or not fits:
            return False
        self.kept.adopt(adopted_sequence(owner, conversation, self._fingerprint, ids, parked))
        return True

    def export(self, conversation: str) -> KeptState | None:
        return self.kept.export(conversation)

    def paused_bytes(self, running: Iterable[Sequence]) -> int:
        return sum(sequence.state.parked_bytes for sequence in running)

    # ---- inside

    def _pay_for_points(self) -> None:
        """A restored or forked state brings its restore points along."""
        if self._facts.needs_marks:
            self.kept.shrink()

    def _reuse_limit(self, request: Request) -> int:
        limit = max(len(request.ids) - self._least, 0)
        return min(limit, request.exact_prefix) if request.replaces else limit

    def _matches_in_use(
        self, request: Request, running: Iterable[Sequence], ids: IdArray, limit: int
    ) -> list[Match]:
        """What running requests have read already of the same prompt."""
        if request.replaces:  # wants what was read in one piece
            return []
        return [
            self._match_in_use(other, ids, limit)
            for other in running
            if other.state.length > 0 and other.request.owner == request.owner
        ]

    def _match_in_use(self, other: Sequence, ids: IdArray, limit: int) -> Match:
        request = other.request
        entry = kept_sequence(
            request.owner, request.conversation, self._fingerprint, other.ids, other.state
        )
        common = entry.common_prefix(ids)
        usable = min(common, limit)
        if self._facts.needs_marks:
            point = other.prompt_length - self._least
            usable = point if 0 < point <= usable else 0
        return Match(entry, common, usable, in_use=True)

    def _use(self, sequence: Sequence, match: Match, running: Iterable[Sequence]) -> bool:
        """Whether a match could really be used. Other kept states give way to it."""
        if self._try_to_use(sequence, match):
            return True
        had_room = not self.park_kept(running)
        is_gone = match.kept.state.length < match.usable
        return not had_room and not is_gone and self._try_to_use(sequence, match)

    def _try_to_use(self, sequence: Sequence, match: Match) -> bool:
        request = sequence.request
        kept = match.kept
        same = kept.conversation == request.conversation
        takes = same and match.extends and request.keep and not request.replaces
        takes = takes and not match.in_use
        was_live = kept.state.number is not None
        if same and not match.in_use:
            self._cache.touch(kept)
        try:
            sequence.state = self.kept.take(match) if takes else self.kept.copy(match)
        except (OutOfRoom, MemoryError):
            return False
        found = sequence.state.length
        sequence.reused_tokens, sequence.restored_tokens = (found, 0) if was_live else (0, found)
        return True

    def _clear_a_number(self, running: Iterable[Sequence]) -> None:
        """Make a sequence number free, at the cost of kept states first."""
        if self.residency.has_free_number or self.park_kept(running):
            return
        for sequence in reversed(list(running)):
            if sequence.state.number is not None:
                self._pause(sequence.state)
                return

    def _pause(self, state: State) -> None:
        try:
            self.residency.park(state)
        except MemoryError:
            state.length = 0

    def _place(self, state: State, running: Iterable[Sequence]) -> bool:
        """Whether the state is live with its full length. Kept states give way to it."""
        length = state.length
        if not self._try_to_place(state) and not (
            self.park_kept(running) and self._try_to_place(state)
        ):
            self.residency.release(state)
        return state.length == length

    def _try_to_place(self, state: State) -> bool:
        """Whether there was room; the state may have come back shorter."""
        try:
            self.residency.place(state)
        except (OutOfRoom, MemoryError):
            return False
        return True
