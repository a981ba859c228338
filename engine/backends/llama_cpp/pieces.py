"""Cuts the rows of a step into native calls. Pure bookkeeping.

A micro-batch of one token takes other code than any larger one, with other rounding. So a prefill
never contains one, and shares no call with other rows: its numbers depend neither on where it is
cut nor on its mates. A row with drafts is a decode row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.backends.base import Row


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one row that go into one call."""

    row: int
    """Index of the row in the step."""
    sequence: int
    start: int
    ids: tuple[int, ...]
    wants_scores: bool
    wants_all: bool = False


def calls(rows: Sequence[Row], call_tokens: int, micro_batch: int) -> Iterator[tuple[Piece, ...]]:
    """The step's native calls: each prefill row in calls of its own, then all decode rows together.

    Decode rows come last: an interrupted step has then not written tokens whose scores are lost.
    """
    for index, row in enumerate(rows):
        if not _decodes(row):
            yield from ((piece,) for piece in _cut(index, row, call_tokens, micro_batch))
    decode = tuple(
        Piece(index, row.sequence, row.start, row.ids, row.wants_scores, row.wants_all)
        for index, row in enumerate(rows)
        if _decodes(row)
    )
    if decode:
        yield decode


def _decodes(row: Row) -> bool:
    return len(row.ids) == 1 or row.wants_all


def _cut(index: int, row: Row, call_tokens: int, micro_batch: int) -> Iterator[Piece]:
    done = 0
    for size in sizes(len(row.ids), call_tokens, micro_batch):
        end = done + size
        wants = row.wants_scores and end == len(row.ids)
        yield Piece(index, row.sequence, row.start + done, row.ids[done:end], wants)
        done = end


def sizes(count: int, call_tokens: int, micro_batch: int) -> list[int]:
    """Call sizes for `count` >= 2 tokens; where one token would be left over, the last two pieces
    are balanced.
    """
    tail: list[int] = []
    if count > micro_batch and count % micro_batch == 1:
        count -= micro_batch + 1
        tail = [micro_batch + 1 - micro_batch // 2, micro_batch // 2]
    step = max(micro_batch, call_tokens - call_tokens % micro_batch)
    whole, rest = divmod(count, step)
    return [step] * whole + ([rest] if rest else []) + tail
