"""The blocks of one pool: which are free, and how often the others are referred to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class BlockAllocator:
    """Block 0 is the sentinel: it is neither free nor in use."""

    def __init__(self, count: int) -> None:
        """`count`: blocks of the pool, the sentinel included."""
        self._free = list(range(count - 1, 0, -1))
        self._uses = [0] * count

    @property
    def count(self) -> int:
        """Blocks that can be given out."""
        return len(self._uses) - 1

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def free_blocks(self) -> tuple[int, ...]:
        return tuple(self._free)

    def uses(self, block: int) -> int:
        """How many references there are to a block."""
        return self._uses[block]

    def take(self) -> int:
        """A free block, referred to once. Raises IndexError where there is none."""
        block = self._free.pop()
        self._uses[block] = 1
        return block

    def share(self, blocks: Iterable[int]) -> None:
        """Refer once more to blocks that are in use."""
        for block in blocks:
            self._uses[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Give references back; a block without any is free."""
        for block in blocks:
            self._uses[block] -= 1
            if not self._uses[block]:
                self._free.append(block)

    def validate(self, uses: Mapping[int, int]) -> None:
        """Raises AssertionError unless `uses` are the references that somebody really holds."""
        free = set(self._free)
        require(len(free) == len(self._free), "a block is free twice")
        require(0 not in uses and 0 not in free, "the sentinel is given out")
        require(free.isdisjoint(uses), "a block in use is free")
        require(len(uses) + len(free) == self.count, "a block is lost")
        counted = {block: count for block, count in enumerate(self._uses) if count}
        require(counted == uses, "a reference count is wrong")


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
