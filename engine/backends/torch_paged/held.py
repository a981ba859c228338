"""What a sequence holds: a run of blocks in each KV group, and its restore points.

Arithmetic over block numbers. A run begins where its group's window has left the blocks behind, so
what a sequence can be cut to follows from where its runs begin. It counts no references and knows
no pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """How far a KV group looks back."""

    window: int | None
    """Tokens that a token sees, itself included; None: all."""
    block: int
    """Tokens of a block."""

    def first(self, length: int, spare: int = 0) -> int:
        """The first block that a token at position `length`, or `spare` before it, looks at."""
        if self.window is None:
            return 0
        return max(0, length - spare - self.window + 1) // self.block

    def end(self, length: int) -> int:
        """Blocks that `length` tokens reach into."""
        return -(-length // self.block)


@dataclass(slots=True)
class Run:
    """Blocks `first`, `first` + 1, ... of a sequence; those before are given back."""

    first: int = 0
    blocks: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.first + len(self.blocks)

    def at(self, index: int) -> int | None:
        """The block that holds the tokens of that index; None: not held."""
        return self.blocks[index - self.first] if self.first <= index < self.end else None

    def part(self, first: int, end: int) -> Run:
        """A copy of what lies between; `first` is not before the run's own."""
        return Run(first, self.blocks[first - self.first : end - self.first])


@dataclass(slots=True)
class Held:
    length: int
    runs: tuple[Run, ...]
    """Of each KV group."""
    marks: dict[int, tuple[Run, ...]] = field(default_factory=dict)
    """Restore points by length, ascending: what is needed to go on from there."""

    def all_runs(self, group: int) -> Iterator[Run]:
        """A group's run, and those of the restore points."""
        yield self.runs[group]
        for runs in self.marks.values():
            yield runs[group]


def empty(groups: int) -> Held:
    return Held(0, tuple(Run() for _ in range(groups)))


def reachable(held: Held, spans: tuple[Span, ...], length: int) -> int:
    """The longest length of at most `length` that `held` can be cut to: this one while all that
    its next token looks at is there, else that of a restore point, else 0.
    """
    length = min(length, held.length)
    if is_whole(held.runs, spans, length):
        return length
    return max((mark for mark in held.marks if mark <= length), default=0)


def lengths(held: Held, spans: tuple[Span, ...]) -> tuple[int, ...] | None:
    """All lengths that `held` can be cut to, ascending; None: any."""
    lowest = [
        run.first * span.block + span.window - 1
        for run, span in zip(held.runs, spans, strict=True)
        if span.window is not None and run.first
    ]
    if not lowest:
        return None
    return tuple(sorted({*held.marks, *range(max(lowest), held.length), held.length}))


def cut(held: Held, spans: tuple[Span, ...], length: int) -> Held:
    """A copy of `held` with `length` tokens, which it can be cut to."""
    marks = {mark: runs for mark, runs in held.marks.items() if mark <= length}
    if not length:
        return empty(len(spans))
    source = held.runs if is_whole(held.runs, spans, length) else held.marks[length]
    runs = tuple(
        run.part(run.first, span.end(length)) for run, span in zip(source, spans, strict=True)
    )
    return Held(length, runs, marks)


def needed(held: Held, spans: tuple[Span, ...]) -> tuple[Run, ...]:
    """Copies of the parts of the runs that going on from the present length looks at."""
    return tuple(
        run.part(span.first(held.length), run.end)
        for run, span in zip(held.runs, spans, strict=True)
    )


def blocks_of(held: Held, group: int) -> list[int]:
    """A group's blocks, each once, in order of position where that is the same for all runs."""
    return list(dict.fromkeys(block for run in held.all_runs(group) for block in run.blocks))


def renumbered(held: Held, numbers: Sequence[Mapping[int, int]]) -> Held:
    """A copy with other block numbers, given for each group. Raises KeyError."""
    runs = _renumbered(held.runs, numbers)
    marks = {mark: _renumbered(runs, numbers) for mark, runs in held.marks.items()}
    return Held(held.length, runs, marks)


def _renumbered(runs: tuple[Run, ...], numbers: Sequence[Mapping[int, int]]) -> tuple[Run, ...]:
    return tuple(
        Run(run.first, [of_group[block] for block in run.blocks])
        for run, of_group in zip(runs, numbers, strict=True)
    )


def is_whole(runs: tuple[Run, ...], spans: tuple[Span, ...], length: int) -> bool:
    """Whether all that the token at position `length` looks at is there."""
    return all(
        run.first <= span.first(length) and span.end(length) <= run.end
        for run, span in zip(runs, spans, strict=True)
    )
