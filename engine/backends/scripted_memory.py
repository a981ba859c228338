"""What the scripted backend holds: ids of each sequence, and the lengths it can be cut to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from engine.backends.base import Parked

POINT_BYTES = 64


@dataclass(slots=True)
class Held:
    ids: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    """Restore points, ascending."""

    def digest(self) -> int:
        """64 bits that depend on every id and its place."""
        data = np.array(self.ids, dtype=np.int32).tobytes()
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


class Memory:
    def __init__(self, sequences: int, window: int | None) -> None:
        """`window`: None keeps every position, 0 only the last one (and restore points)."""
        self._held = [Held() for _ in range(sequences)]
        self._window = window

    @property
    def token_count(self) -> int:
        return sum(len(held.ids) for held in self._held)

    @property
    def points_bytes(self) -> int:
        return POINT_BYTES * sum(len(held.marks) for held in self._held)

    def held(self, sequence: int) -> Held:
        return self._held[sequence]

    def append(self, sequence: int, token_id: int) -> None:
        self._held[sequence].ids.append(token_id)

    def mark(self, sequence: int) -> None:
        held = self._held[sequence]
        if self._window is not None and len(held.ids) not in held.marks:
            held.marks.append(len(held.ids))

    def drop(self, sequence: int) -> None:
        self._held[sequence] = Held()

    def clear(self) -> None:
        self._held = [Held() for _ in self._held]

    def fork(self, source: int, target: int, length: int) -> None:
        held = self._held[source]
        self._held[target] = Held(list(held.ids), list(held.marks))
        self.truncate(target, length)

    def truncate(self, sequence: int, length: int) -> int:
        held = self._held[sequence]
        kept = max((place for place in self._positions(held) if place <= length), default=0)
        del held.ids[kept:]
        held.marks = [mark for mark in held.marks if mark <= kept]
        return kept

    def park(self, sequence: int) -> Parked:
        held = self._held[sequence]
        positions = None if self._window is None else tuple(self._positions(held))
        values = [len(held.marks), *held.marks, *held.ids]
        data = np.array(values, dtype=np.int32).tobytes() + bytes(POINT_BYTES * len(held.marks))
        self.drop(sequence)
        return Parked(data, len(held.ids), positions)

    def restore(self, parked: Parked, sequence: int, length: int) -> int:
        values = np.frombuffer(parked.data, dtype=np.int32).tolist()
        first = 1 + values[0]
        self._held[sequence] = Held(values[first : first + parked.length], values[1:first])
        return self.truncate(sequence, length)

    def _positions(self, held: Held) -> list[int]:
        """Lengths that `held` can be cut to, ascending."""
        length = len(held.ids)
        if self._window is None:
            return list(range(length + 1))
        return sorted({*held.marks, *range(max(length - self._window, 0), length + 1)})
