"""A mirror of which KV cells are in use, by the rules by which llama.cpp places tokens.

llama.cpp does not tell which cells it uses, but attention costs time up to the highest one, and
equal sums need equal places. A wrong guess here costs time, never correctness. Pure bookkeeping.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

# Attention is computed over whole groups of this many cells.
GROUP = 256


@dataclass(slots=True)
class _Held:
    cells: list[int] = field(default_factory=list)
    in_order: bool = True
    """Token i lies in cell i, as in a fresh context."""


class Cells:
    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self._users = np.zeros(size, np.int16)
        self._held: dict[int, _Held] = {}
        self._head = 0
        self._top = 0
        """At least the highest used cell; exact after it was looked up."""

    @property
    def highest(self) -> int:
        """Cells up to and with the highest used one."""
        used = np.flatnonzero(self._users)
        return int(used[-1]) + 1 if len(used) else 0

    def in_order(self, sequence: int) -> bool:
        held = self._held.get(sequence)
        return held is None or held.in_order

    def is_scattered(self) -> bool:
        """Whether holes cost more than putting the sequences together does."""
        if self._top - self.used <= GROUP:
            return False
        self._top = self.highest
        holes = self._top - self.used
        return holes > GROUP and holes > self.used // 4

    def append(self, sequence: int, count: int) -> None:
        held = self._held.get(sequence)
        if held is None:
            held = self._held[sequence] = _Held()
        for cell in self._take(count):
            held.in_order = held.in_order and cell == len(held.cells)
            held.cells.append(cell)

    def share(self, source: int, target: int, length: int) -> None:
        """`target`, which is empty, uses the cells of the first `length` tokens of `source` too."""
        cells = self._held.get(source, _Held()).cells[:length]
        self._users[cells] += 1
        self._held[target] = _Held(cells, _is_range(cells))

    def cut(self, sequence: int, length: int) -> None:
        held = self._held.get(sequence)
        if held is None or length >= len(held.cells):
            return
        gone = held.cells[length:]
        del held.cells[length:]
        held.in_order = held.in_order or _is_range(held.cells)
        self._users[gone] -= 1
        freed = [cell for cell in gone if not self._users[cell]]
        self.used -= len(freed)
        if freed:
            self._head = min(self._head, min(freed))
        if not held.cells:
            del self._held[sequence]

    def clear(self) -> None:
        self._users[:] = 0
        self._held.clear()
        self.used = self._head = self._top = 0

    def _take(self, count: int) -> list[int]:
        """Free cells from the head on, then from the start; the search starts anew when the head is
        far out.
        """
        if self._head > self.used + 2 * count:
            self._head = 0
        if count == 1 and self._head < self.size and not self._users[self._head]:
            taken = [self._head]
            self._users[self._head] = 1
        else:
            free = np.flatnonzero(self._users == 0)
            taken = np.roll(free, -int(np.searchsorted(free, self._head)))[:count].tolist()
            self._users[taken] = 1
        self.used += len(taken)
        self._head = taken[-1] + 1
        self._top = max(self._top, max(taken) + 1)
        return taken


def _is_range(cells: list[int]) -> bool:
    return cells == list(range(len(cells)))
