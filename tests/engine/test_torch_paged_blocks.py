"""The books of the paged pool, without a model: blocks hold the ids that were written into them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from engine.backends.torch_paged import held as holding
from engine.backends.torch_paged.block_tables import MAX_MARKS, BlockTables
from engine.backends.torch_paged.held import Held, Run, Span
from engine.errors import OutOfRoom

SEQUENCES = 5
SPARE = 3
POISON = -1

Ids = npt.NDArray[np.int64]


@dataclass
class Kept:
    """A state that was taken out: its books, with block numbers from 1, and their contents."""

    held: Held
    contents: list[Ids]
    ids: list[int]


@dataclass
class Memory:
    """Pools of token ids, written and read as a decoder would; free blocks are poisoned."""

    windows: tuple[int | None, ...]
    block: int
    counts: tuple[int, ...]
    ids: list[list[int]] = field(default_factory=lambda: [[] for _ in range(SEQUENCES)])

    def __post_init__(self) -> None:
        spans = [Span(window, self.block) for window in self.windows]
        self.tables = BlockTables(spans, self.counts, SEQUENCES, SPARE)
        self.pools = [np.full((count, self.block), POISON) for count in self.counts]

    def write(self, tokens: dict[int, list[int]], done: bool = True) -> None:
        """One pass; an aborted one writes too, but is not counted."""
        for copy in self.tables.reserve({s: len(ids) for s, ids in tokens.items()}):
            self.pools[copy.group][copy.target] = self.pools[copy.group][copy.source]
        for sequence, new in tokens.items():
            start = len(self.ids[sequence])
            for group, run in enumerate(self.tables.held(sequence).runs):
                for position, token in enumerate(new, start):
                    block = run.at(position // self.block)
                    assert block
                    self.pools[group][block, position % self.block] = token
        if not done:
            self.tables.take_back(tokens)
            return
        for sequence, new in tokens.items():
            self.ids[sequence] += new
            self.look(sequence, first_position=len(self.ids[sequence]) - len(new))
            self.tables.advance(sequence, len(new))

    def fork(self, source: int, target: int, length: int) -> None:
        kept = self.tables.fork(source, target, length)
        assert kept <= length
        self.ids[target] = self.ids[source][:kept]

    def truncate(self, sequence: int, length: int) -> None:
        possible = self.tables.lengths(sequence)
        before = len(self.ids[sequence])
        kept = self.tables.truncate(sequence, length)
        places = range(before + 1) if possible is None else (0, *possible)
        assert kept == max(place for place in places if place <= length)
        del self.ids[sequence][kept:]

    def drop(self, sequence: int) -> None:
        self.tables.drop(sequence)
        self.ids[sequence] = []

    def park(self, sequence: int) -> Kept:
        held = self.tables.held(sequence)
        blocks = [holding.blocks_of(held, group) for group in range(len(self.pools))]
        orders = [{block: i for i, block in enumerate(of_group, 1)} for of_group in blocks]
        contents = [pool[of_group] for pool, of_group in zip(self.pools, blocks, strict=True)]
        kept = Kept(holding.renumbered(held, orders), contents, self.ids[sequence])
        self.drop(sequence)
        return kept

    def restore(self, kept: Kept, sequence: int, length: int) -> None:
        spans = self.tables.spans
        held = holding.cut(kept.held, spans, holding.reachable(kept.held, spans, length))
        taken = self.tables.adopt(sequence, [len(one) for one in kept.contents], kept.held)
        for pool, blocks, contents in zip(self.pools, taken, kept.contents, strict=True):
            pool[blocks] = contents
        self.ids[sequence] = list(kept.ids)
        self.truncate(sequence, held.length)
        assert len(self.ids[sequence]) == held.length

    def check(self) -> None:
        self.tables.validate()
        for pool, allocator in zip(self.pools, self.tables.allocators, strict=True):
            pool[list(allocator.free_blocks)] = POISON
            pool[0] = POISON
        for sequence in range(SEQUENCES):
            assert self.tables.length(sequence) == len(self.ids[sequence])
            self.look(sequence, len(self.ids[sequence]))
            for length, runs in self.tables.held(sequence).marks.items():
                self.look(sequence, length, runs)

    def look(self, sequence: int, first_position: int, runs: tuple[Run, ...] | None = None) -> None:
        """What a token at `first_position` and those up to the end look at is what was written."""
        end = first_position if runs else len(self.ids[sequence])
        runs = runs or self.tables.held(sequence).runs
        for group, window in enumerate(self.windows):
            first = 0 if window is None else max(0, first_position - window + 1)
            for position in range(first, end):
                block = runs[group].at(position // self.block)
                assert block, f"sequence {sequence} lost position {position} of {end}"
                read = self.pools[group][block, position % self.block]
                assert read == self.ids[sequence][position]

    @property
    def is_empty(self) -> bool:
        return all(one.free == one.count for one in self.tables.allocators)


def random_steps(memory: Memory, chance: random.Random, steps: int) -> set[str]:
    """Random moves, checked after each; the names of those that were really made."""
    made = set()
    parked: list[Kept] = []
    moves = ["fork", "truncate", "mark", "abort", "drop", "park", "restore", *["add"] * 5]
    for _ in range(steps):
        move = chance.choice(moves)
        sequence, other = chance.sample(range(SEQUENCES), 2)
        length = len(memory.ids[sequence])
        cut = max(0, length - chance.choice([0, 1, 2, SPARE, chance.randint(0, length)]))
        try:
            if move in ("add", "abort"):
                few = chance.sample(range(SEQUENCES), chance.randint(1, 3))
                new = {
                    s: [chance.randrange(1 << 30) for _ in range(chance.choice([1, 1, 3, 9]))]
                    for s in few
                }
                memory.write(new, done=move == "add")
            elif move == "fork":
                memory.fork(sequence, other, cut)
            elif move == "truncate":
                memory.truncate(sequence, cut)
            elif move == "mark":
                memory.tables.mark(sequence)
            elif move == "drop":
                memory.drop(sequence)
            elif move == "park" and length:
                parked = [*parked[-3:], memory.park(sequence)]
            elif move == "restore" and parked:
                memory.drop(sequence)
                kept = chance.choice(parked)
                memory.restore(kept, sequence, chance.randint(0, len(kept.ids)))
        except OutOfRoom:
            move = "no room"
        made.add(move)
        memory.check()
    return made


KINDS: dict[str, tuple[tuple[int | None, ...], int, tuple[int, ...]]] = {
    "full": ((None,), 4, (30,)),
    "full and window": ((None, 8), 4, (40, 19)),
    "two windows": ((None, 9, 5), 4, (40, 26, 18)),
    "windows only": ((8,), 16, (9,)),
    "window of a token": ((None, 1), 4, (40, 14)),
    "blocks of a token": ((None, 3), 1, (150, 40)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_history_keeps_the_books_and_every_needed_token(kind: str) -> None:
    windows, block, counts = KINDS[kind]
    memory = Memory(windows, block, counts)
    made = random_steps(memory, random.Random(kind), 1700)
    wanted = {"add", "fork", "truncate", "mark", "abort", "drop", "park", "restore", "no room"}
    assert made == wanted
    for sequence in range(SEQUENCES):
        memory.drop(sequence)
    memory.check()
    assert memory.is_empty


def test_a_fork_shares_full_blocks_and_copies_a_partial_one_when_either_writes() -> None:
    memory = Memory((None,), 4, (20,))
    memory.write({0: list(range(10))})
    memory.fork(0, 1, 10)
    allocator = memory.tables.allocators[0]
    assert allocator.count - allocator.free == 3
    memory.write({0: [10], 1: [77]})
    memory.check()
    assert allocator.count - allocator.free == 4
    mine, theirs = (memory.tables.held(s).runs[0].blocks for s in (0, 1))
    assert mine[:2] == theirs[:2]
    assert mine[2] != theirs[2]


def test_its_own_restore_point_makes_no_sequence_copy() -> None:
    memory = Memory((None, 8), 4, (20, 20))
    memory.write({0: list(range(10))})
    memory.tables.mark(0)
    assert memory.tables.reserve({0: 1}) == []


def test_a_window_gives_back_what_no_token_to_come_can_see() -> None:
    memory = Memory((None, 8), 4, (100, 20))
    for token in range(200):
        memory.write({0: [token]})
        memory.check()
        run = memory.tables.held(0).runs[1]
        oldest = max(0, token + 1 - SPARE - 8 + 1)
        assert run.first == oldest // 4
    assert len(memory.tables.held(0).runs[0].blocks) == 50


def test_a_window_can_take_back_its_spare_tokens_and_go_to_its_restore_points() -> None:
    memory = Memory((None, 8), 4, (100, 40))
    memory.write({0: list(range(30))})
    memory.tables.mark(0)
    for token in range(30, 70):
        memory.write({0: [token]})
    for length in range(70 - SPARE, 71):
        memory.fork(0, 1, 70)
        memory.truncate(1, length)
        assert memory.tables.length(1) == length
    memory.truncate(0, 50)
    memory.check()
    assert memory.tables.length(0) == 30
    memory.write({0: [1, 2, 3]})
    memory.check()
    memory.truncate(0, 20)
    assert memory.tables.length(0) == 0


def test_restore_points_are_few_and_go_before_room_runs_out() -> None:
    memory = Memory((None, 8), 4, (100, 16))
    for token in range(120):
        memory.write({0: [token]})
        if token % 12 == 11:
            memory.tables.mark(0)
            memory.check()
    assert 0 < len(memory.tables.held(0).marks) < MAX_MARKS
    before = set(memory.tables.held(0).marks)
    assert max(before) == 120
    with pytest.raises(OutOfRoom):
        memory.tables.reserve({1: 60})
    assert set(memory.tables.held(0).marks) == before
    memory.write({1: list(range(40))})
    memory.check()
    assert set(memory.tables.held(0).marks) < before


def test_what_does_not_fit_changes_nothing() -> None:
    memory = Memory((None, 8), 4, (10, 10))
    memory.write({0: list(range(10)), 1: list(range(5))})
    with pytest.raises(OutOfRoom):
        memory.tables.reserve({0: 10, 1: 30})
    memory.check()
    kept = memory.park(0)
    memory.write({1: list(range(5, 32))})
    with pytest.raises(OutOfRoom):
        memory.restore(kept, 0, 10)
    memory.check()
    assert memory.tables.length(0) == 0
