"""Kept sequences and where they lie: taken over, copied, parked within the budget, replaced,
dropped.
"""

from __future__ import annotations

import numpy as np

from engine.backends.base import BackendFacts, Parked
from engine.cache.kept import IdArray, KeptSequence, KeptState, Match
from engine.cache.prefix_cache import PrefixCache
from engine.cache.residency import Residency, State


class KeptStates:
    def __init__(self, cache: PrefixCache, residency: Residency, facts: BackendFacts) -> None:
        self._cache = cache
        self._residency = residency
        self._facts = facts

    def find(self, owner: str, fingerprint: str, ids: IdArray, limit: int) -> list[Match]:
        """Kept sequences that begin like `ids`, the most useful first; at most `limit` tokens of
        each.

        Only a parked state tells to which lengths it can be cut. Where that matters, live ones are
        parked first.
        """
        matches = self._cache.matches(owner, fingerprint, ids, limit)
        if not self._facts.needs_marks or not matches:
            return matches
        best = matches[0]
        if best.kept.state.number is None or best.usable in (0, best.kept.state.length):
            return matches
        self.park_all()
        return self._cache.matches(owner, fingerprint, ids, limit)

    def take(self, match: Match) -> State:
        """The state itself, cut to what is usable; it is no longer kept."""
        state = match.kept.state
        self._residency.place(state)
        self._residency.truncate(state, match.usable)
        self._cache.remove(match.kept)
        return state

    def copy(self, match: Match) -> State:
        """A copy, cut to what is usable; the kept sequence stays."""
        kept = match.kept
        if kept.state.number is not None:
            if self._residency.has_free_number:
                return self._residency.fork(kept.state, match.usable)
            self._residency.park(kept.state)
        assert kept.state.parked is not None
        return self._residency.restore_copy(kept.state.parked, match.usable)

    def publish(self, entry: KeptSequence) -> None:
        """Keep a state that is completely written."""
        if not self._facts.needs_marks:
            for useless in self._cache.contained_in(entry):
                self._forget(useless)
        self._cache.add(entry)
        self.shrink()

    def replace(self, entry: KeptSequence) -> None:
        """Keep `entry` in the place of the conversation's state that begins most like it."""
        mine = [kept for kept in self._cache.of(entry.conversation) if kept.owner == entry.owner]
        old = max(mine, key=lambda kept: kept.common_prefix(entry.ids), default=None)
        if old is not None:
            self._forget(old)
        self.publish(entry)

    def park_all(self, paused_bytes: int = 0) -> None:
        """Take every kept sequence out of the backend; `paused_bytes` are parked by others."""
        for entry in self._cache.entries:
            if entry.state.number is not None:
                self._park(entry, paused_bytes)

    def drop(self, conversation: str) -> None:
        for entry in self._cache.of(conversation):
            self._forget(entry)

    def adopt(self, entry: KeptSequence) -> None:
        """Keep a parked state that came from elsewhere, within the budget."""
        self._cache.add(entry)
        self.shrink()

    def export(self, conversation: str) -> KeptState | None:
        """The newest state of a conversation; it is parked from then on. None: there is none, or no
        memory to park it.
        """
        entry = self._cache.newest(conversation)
        if entry is None:
            return None
        try:
            self._residency.park(entry.state)
        except MemoryError:
            self._cache.remove(entry)
            return None
        parked = entry.state.parked
        assert parked is not None
        return KeptState(tuple(entry.ids.tolist()), parked, entry.fingerprint)

    def _park(self, entry: KeptSequence, paused_bytes: int) -> None:
        expected = int(entry.state.length * self._facts.kv_bytes_per_token)
        self.shrink(paused_bytes + expected)
        if self._over(paused_bytes + expected) and not self._cache.is_pinned(entry):
            self._forget(entry)
            return
        try:
            self._residency.park(entry.state)
        except MemoryError:
            self._cache.remove(entry)
            return
        self.shrink(paused_bytes)

    def shrink(self, incoming_bytes: int = 0) -> None:
        """Give up parked states until `incoming_bytes` more are within the budget, from which the
        restore points of live states are paid first.
        """
        for entry in self._cache.excess(incoming_bytes + self._residency.points_bytes):
            self._forget(entry)

    def _over(self, incoming_bytes: int) -> bool:
        held = self._cache.parked_bytes + self._residency.points_bytes
        return held + incoming_bytes > self._cache.budget_bytes

    def _forget(self, entry: KeptSequence) -> None:
        self._cache.remove(entry)
        self._residency.release(entry.state)


def kept_sequence(
    owner: str, conversation: str, fingerprint: str, ids: list[int], state: State
) -> KeptSequence:
    """`ids`: at least the forwarded tokens; the rest is left out."""
    return KeptSequence(
        owner, conversation, fingerprint, np.array(ids[: state.length], dtype=np.int32), state
    )


def adopted_sequence(
    owner: str, conversation: str, fingerprint: str, ids: tuple[int, ...], parked: Parked
) -> KeptSequence:
    state = State(parked=parked, length=parked.length)
    return kept_sequence(owner, conversation, fingerprint, list(ids), state)
