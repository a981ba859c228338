"""All kept sequences: which one saves a prompt the most, and which goes first when memory is short.

Prompts are compared token by token, never by a hash. Eviction takes whole parked states, the
conversation that was not used for longest first; the newest states of the open conversation and of
the pinned beginning stay. It never touches the backend.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.cache.kept import IdArray, KeptSequence, Match
from engine.events import ReuseBreak
from engine.request import Part


class PrefixCache:
    def __init__(self, budget_bytes: int) -> None:
        """`budget_bytes`: for all parked states and restore points; 0 keeps none."""
        self.budget_bytes = budget_bytes
        self._entries: list[KeptSequence] = []
        self._tick = 0
        self._open = ""
        self._pinned = ""

    @property
    def entries(self) -> tuple[KeptSequence, ...]:
        return tuple(self._entries)

    @property
    def parked_bytes(self) -> int:
        return sum(entry.state.parked_bytes for entry in self._entries)

    def matches(self, owner: str, fingerprint: str, ids: IdArray, limit: int) -> list[Match]:
        """What each kept sequence saves, the best first; at most `limit` tokens."""
        found = []
        for entry in self._entries:
            if entry.owner == owner and entry.fingerprint == fingerprint:
                common = entry.common_prefix(ids)
                found.append(Match(entry, common, entry.usable(min(common, limit))))
        return sorted(found, key=_rank, reverse=True)

    def newest(self, conversation: str) -> KeptSequence | None:
        mine = [entry for entry in self._entries if entry.conversation == conversation]
        return max(mine, key=lambda entry: entry.used, default=None)

    def open(self, conversation: str) -> None:
        """The conversation that a person is in: its newest state is not evicted."""
        self._open = conversation

    def pin(self, conversation: str) -> None:
        """What other conversations begin with: its newest state is not evicted, unless it takes
        more than half of the budget.
        """
        self._pinned = conversation

    def add(self, entry: KeptSequence) -> None:
        """Publish a state that is completely written."""
        self.touch(entry)
        self._entries.append(entry)

    def touch(self, entry: KeptSequence) -> None:
        self._tick += 1
        entry.used = self._tick

    def remove(self, entry: KeptSequence) -> None:
        self._entries.remove(entry)

    def of(self, conversation: str) -> list[KeptSequence]:
        return [entry for entry in self._entries if entry.conversation == conversation]

    def contained_in(self, newer: KeptSequence) -> list[KeptSequence]:
        """States of the same conversation that `newer` makes useless: it holds all of them and can
        be cut anywhere.
        """
        return [
            entry
            for entry in self.of(newer.conversation)
            if entry is not newer
            and entry.owner == newer.owner
            and entry.fingerprint == newer.fingerprint
            and entry.common_prefix(newer.ids) == len(entry.ids)
        ]

    def excess(self, incoming_bytes: int) -> list[KeptSequence]:
        """Parked states to give up so that `incoming_bytes` more stay within the budget."""
        over = self.parked_bytes + incoming_bytes - self.budget_bytes
        goners = []
        for entry in self._by_age():
            if over <= 0:
                break
            goners.append(entry)
            over -= entry.state.parked_bytes
        return goners

    def is_pinned(self, entry: KeptSequence) -> bool:
        if self.budget_bytes == 0 or entry is not self.newest(entry.conversation):
            return False
        is_small = 2 * entry.state.parked_bytes <= self.budget_bytes
        return entry.conversation == self._open or (entry.conversation == self._pinned and is_small)

    def _by_age(self) -> Iterable[KeptSequence]:
        last_used: dict[str, int] = {}
        for entry in self._entries:
            last_used[entry.conversation] = max(last_used.get(entry.conversation, 0), entry.used)
        parked = [
            entry
            for entry in self._entries
            if entry.state.parked is not None and not self.is_pinned(entry)
        ]
        return sorted(
            parked,
            key=lambda entry: (
                entry.conversation == self._open,
                last_used[entry.conversation],
                entry.used,
            ),
        )


def _rank(match: Match) -> tuple[int, bool, int, int]:
    live = match.kept.state.number is not None
    return match.usable, live, match.common, match.kept.used


def reuse_break(
    matches: Iterable[Match], conversation: str, ids: IdArray, parts: tuple[Part, ...]
) -> ReuseBreak | None:
    """Where the conversation's best kept sequence went on differently from the prompt."""
    mine = [match for match in matches if match.kept.conversation == conversation]
    best = max(mine, key=lambda match: match.common, default=None)
    if best is None or not conversation:
        return None
    position = best.common
    if position in (len(best.kept.ids), len(ids)):
        return None
    names = [part.name for part in parts if part.start <= position]
    return ReuseBreak(
        position, int(best.kept.ids[position]), int(ids[position]), (names or [""])[-1]
    )
