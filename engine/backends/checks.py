"""Checks of what the engine asks for, before anything is computed: llama.cpp would abort instead of
raising, and a paged pool would be overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.backends.base import CHOSEN, BackendFacts, Row


def check_sequence(facts: BackendFacts, sequence: int) -> None:
    if not 0 <= sequence < facts.max_sequences:
        raise ValueError(f"sequence {sequence} is not in 0..{facts.max_sequences - 1}")


def check_rows(facts: BackendFacts, rows: Sequence[Row], lengths: Sequence[int]) -> None:
    """`lengths[i]` is the number of tokens that rows[i].sequence holds. Raises ValueError."""
    if not rows:
        raise ValueError("no rows")
    total = sum(len(row.ids) for row in rows)
    if total > facts.max_rows:
        raise ValueError(f"{total} tokens, more than max_rows {facts.max_rows}")
    if len({row.sequence for row in rows}) < len(rows):
        raise ValueError("a sequence appears in two rows")
    drafted = sum(len(row.ids) - 1 for row in rows if row.wants_all)
    if drafted > facts.max_draft:
        raise ValueError(f"{drafted} drafted tokens, more than max_draft {facts.max_draft}")
    for row, length in zip(rows, lengths, strict=True):
        _check_row(facts, row, length)


def _check_row(facts: BackendFacts, row: Row, length: int) -> None:
    if not row.ids:
        raise ValueError(f"the row of sequence {row.sequence} is empty")
    if row.start != length:
        raise ValueError(
            f"sequence {row.sequence} holds {length} tokens; row starts at {row.start}"
        )
    if row.start + len(row.ids) > facts.context:
        raise ValueError(
            f"sequence {row.sequence} would hold {row.start + len(row.ids)} of {facts.context}"
        )
    if row.follows:
        if row.ids != (CHOSEN,) or not facts.max_choice:
            raise ValueError(f"the row of sequence {row.sequence} cannot follow")
        return
    if min(row.ids) < 0 or max(row.ids) >= facts.vocab_size:
        raise ValueError(f"sequence {row.sequence} has an id outside 0..{facts.vocab_size - 1}")
