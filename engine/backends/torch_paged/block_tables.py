"""Which blocks each sequence holds: shared by forks, copied before a shared one is written, given
back when a window has left them behind.

Bookkeeping alone: whoever calls it copies, stores and reads the blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.backends.torch_paged import held as holding
from engine.backends.torch_paged.block_allocator import BlockAllocator, require
from engine.backends.torch_paged.held import Held, Run, Span
from engine.errors import OutOfRoom

MAX_MARKS = 8
"""Restore points kept for one sequence; the oldest go."""


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """A block that must be copied before the next tokens are written."""

    group: int
    source: int
    target: int


class BlockTables:
    def __init__(
        self, spans: Sequence[Span], counts: Sequence[int], sequences: int, spare: int
    ) -> None:
        """`counts`: blocks of each KV group's pool, the sentinel included; `spare`: tokens beyond
        its window that a sequence keeps, so that as many can be taken back.
        """
        self.spans = tuple(spans)
        self.allocators = tuple(BlockAllocator(count) for count in counts)
        self._spare = spare
        self._held = [holding.empty(len(self.spans)) for _ in range(sequences)]

    # ---- what is there

    def held(self, sequence: int) -> Held:
        """To look at only."""
        return self._held[sequence]

    def length(self, sequence: int) -> int:
        return self._held[sequence].length

    def lengths(self, sequence: int) -> tuple[int, ...] | None:
        """Lengths that a sequence can be cut to, ascending; None: any."""
        return holding.lengths(self._held[sequence], self.spans)

    def mark_blocks(self, group: int) -> set[int]:
        """Blocks that only restore points hold."""
        marked = {
            block
            for held in self._held
            for runs in held.marks.values()
            for block in runs[group].blocks
        }
        return marked.difference(*(held.runs[group].blocks for held in self._held))

    # ---- tokens come

    def reserve(self, tokens: Mapping[int, int]) -> list[BlockCopy]:
        """Give sequences blocks for so many more tokens each.

        Returns the copies to make before they are written. Raises OutOfRoom, nothing changed.
        """
        self._make_room(
            [
                sum(self._wanted(group, self._held[s], count) for s, count in tokens.items())
                for group in range(len(self.spans))
            ]
        )
        copies = []
        for sequence, count in tokens.items():
            for group in range(len(self.spans)):
                copies += self._grow(group, self._held[sequence], count)
        return copies

    def advance(self, sequence: int, count: int) -> None:
        """So many reserved tokens are written."""
        held = self._held[sequence]
        held.length += count
        for run, span, allocator in zip(held.runs, self.spans, self.allocators, strict=True):
            left = span.first(held.length, self._spare) - run.first
            if left > 0:
                allocator.release(run.blocks[:left])
                del run.blocks[:left]
                run.first += left

    def take_back(self, sequences: Iterable[int]) -> None:
        """Give up what was reserved and not written."""
        for sequence in sequences:
            held = self._held[sequence]
            for run, span, allocator in zip(held.runs, self.spans, self.allocators, strict=True):
                kept = span.end(held.length) - run.first
                allocator.release(run.blocks[kept:])
                del run.blocks[kept:]

    # ---- the engine's moves

    def fork(self, source: int, target: int, length: int) -> int:
        """Let `target` share at most `length` tokens of `source`; returns how many it holds."""
        held = self._held[source]
        kept = holding.reachable(held, self.spans, length)
        self._replace(target, holding.cut(held, self.spans, kept))
        return kept

    def truncate(self, sequence: int, length: int) -> int:
        """Cut to at most `length`; returns the length kept."""
        held = self._held[sequence]
        kept = holding.reachable(held, self.spans, length)
        if kept == held.length:
            return kept
        if not kept or not holding.is_whole(held.runs, self.spans, kept):
            self._replace(sequence, holding.cut(held, self.spans, kept))
            return kept
        for mark in [mark for mark in held.marks if mark > kept]:
            self._unmark(held, mark)
        held.length = kept
        self.take_back([sequence])
        return kept

    def mark(self, sequence: int) -> None:
        """Keep what is needed to go on from the present length."""
        held = self._held[sequence]
        if not held.length or held.length in held.marks:
            return
        while len(held.marks) >= MAX_MARKS:
            self._unmark(held, min(held.marks))
        runs = holding.needed(held, self.spans)
        self._share(runs)
        held.marks[held.length] = runs

    def drop(self, sequence: int) -> None:
        self._replace(sequence, holding.empty(len(self.spans)))

    def adopt(self, sequence: int, counts: Sequence[int], saved: Held) -> list[list[int]]:
        """Let an empty sequence hold a state whose blocks are numbered 1 .. `counts[group]`.

        Returns the blocks of each group in that order, to be filled. Raises OutOfRoom, nothing
        changed.
        """
        self._make_room(counts)
        taken = [
            [allocator.take() for _ in range(count)]
            for allocator, count in zip(self.allocators, counts, strict=True)
        ]
        self._held[sequence] = holding.renumbered(
            saved, [dict(enumerate(blocks, start=1)) for blocks in taken]
        )
        self._share_all(self._held[sequence])
        for allocator, blocks in zip(self.allocators, taken, strict=True):
            allocator.release(blocks)
        return taken

    def fits(self, saved: Held) -> bool:
        """Whether a state from outside agrees with itself."""
        try:
            self._check(saved)
        except AssertionError:
            return False
        return True

    def validate(self) -> None:
        """Raises AssertionError where the books are wrong."""
        for group, allocator in enumerate(self.allocators):
            uses: Counter[int] = Counter()
            for held in self._held:
                for run in held.all_runs(group):
                    uses.update(run.blocks)
            allocator.validate(uses)
        for held in self._held:
            self._check(held)

    # ---- inside

    def _wanted(self, group: int, held: Held, count: int) -> int:
        span, run = self.spans[group], held.runs[group]
        return span.end(held.length + count) - run.end + self._shares_last(group, held)

    def _grow(self, group: int, held: Held, count: int) -> list[BlockCopy]:
        span, run, allocator = self.spans[group], held.runs[group], self.allocators[group]
        copies = []
        if self._shares_last(group, held):
            copies.append(BlockCopy(group, run.blocks[-1], allocator.take()))
            allocator.release(run.blocks[-1:])
            run.blocks[-1] = copies[-1].target
        missing = span.end(held.length + count) - run.end
        run.blocks += [allocator.take() for _ in range(missing)]
        return copies

    def _shares_last(self, group: int, held: Held) -> bool:
        """Whether the next token would go into a block that somebody else reads.

        The sequence's own restore points read only what lies before the next token.
        """
        index = held.length // self.spans[group].block
        block = held.runs[group].at(index)
        if block is None:
            return False
        own = sum(run.at(index) == block for run in held.all_runs(group))
        return self.allocators[group].uses(block) > own

    def _make_room(self, wanted: Sequence[int]) -> None:
        """For so many blocks of each group. Restore points go before room runs out, the shortest
        first. Raises OutOfRoom, nothing changed.
        """
        for group, allocator in enumerate(self.allocators):
            missing = wanted[group] - allocator.free
            if missing > 0 and missing > len(self.mark_blocks(group)):
                raise OutOfRoom
        marks = sorted((at, s) for s, held in enumerate(self._held) for at in held.marks)
        for length, sequence in marks:
            if all(a.free >= count for a, count in zip(self.allocators, wanted, strict=True)):
                return
            self._unmark(self._held[sequence], length)

    def _unmark(self, held: Held, length: int) -> None:
        for allocator, run in zip(self.allocators, held.marks.pop(length), strict=True):
            allocator.release(run.blocks)

    def _replace(self, sequence: int, new: Held) -> None:
        old = self._held[sequence]
        self._share_all(new)
        self._held[sequence] = new
        for group, allocator in enumerate(self.allocators):
            for run in old.all_runs(group):
                allocator.release(run.blocks)

    def _share_all(self, held: Held) -> None:
        self._share(held.runs)
        for runs in held.marks.values():
            self._share(runs)

    def _share(self, runs: Sequence[Run]) -> None:
        for allocator, run in zip(self.allocators, runs, strict=True):
            allocator.share(run.blocks)

    def _check(self, held: Held) -> None:
        self._check_runs(held.length, held.runs)
        require(len(held.marks) <= MAX_MARKS, "too many restore points")
        for length, runs in held.marks.items():
            require(0 < length <= held.length, "a restore point lies beyond the end")
            self._check_runs(length, runs)

    def _check_runs(self, length: int, runs: Sequence[Run]) -> None:
        for run, span in zip(runs, self.spans, strict=True):
            require(len(set(run.blocks)) == len(run.blocks), "a block is twice in a table")
            require(run.end == span.end(length), "a table has another length than its sequence")
            require(0 <= run.first <= span.first(length), "a block that a window needs is gone")
            require(span.window is not None or not run.first, "a table begins with a hole")
