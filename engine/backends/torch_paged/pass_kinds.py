"""The shapes that passes are padded to, so that few of them have to be recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.backends.base import Row

DECODE_SEQUENCES = (1, 2, 4, 8, 16, 32)
DRAFTED = (4, 8, 16)
"""Rows of a sequence that checks drafts: the sampled token and 3, 7 or 15 behind it."""
PROMPT_TOKENS = (16, 64, 128, 256, 512)
RECORDED_TOKENS = PROMPT_TOKENS[-1]
MOST_CHECKED = 64
"""Rows of a pass that checks drafts: beyond, plain passes lose nothing."""


@dataclass(frozen=True, slots=True, order=True)
class PassKind:
    """`new`: rows that each sequence may have; `wanted`: rows whose scores are computed."""

    sequences: int
    new: int
    wanted: int

    @property
    def tokens(self) -> int:
        return self.sequences * self.new

    @property
    def chooses(self) -> bool:
        """Whether a token is chosen behind each row, so that others may follow."""
        return self.new == 1 and self.wanted == self.sequences


def all_kinds(max_sequences: int, max_rows: int, max_draft: int) -> list[PassKind]:
    """The largest first: what they need, smaller ones find there."""
    batches = [count for count in DECODE_SEQUENCES if count <= max_sequences]
    batches = batches or [1]
    if batches[-1] < max_sequences:
        batches.append(max_sequences)
    kinds = {PassKind(count, 1, count) for count in batches}
    for new in DRAFTED:
        if max_draft:
            kinds |= {
                PassKind(count, new, count * new)
                for count in batches
                if count * new <= MOST_CHECKED
            }
    for tokens in PROMPT_TOKENS:
        kinds |= {PassKind(1, tokens, wanted) for wanted in (0, 1)}
    fitting = (kind for kind in kinds if kind.tokens <= max(max_rows, max_sequences))
    return sorted(fitting, key=lambda kind: (-kind.tokens, kind))


def kind_of(rows: Sequence[Row], kinds: Sequence[PassKind]) -> PassKind | None:
    """The smallest that the rows fit into; None: a pass that is not recorded, such as of prompts
    beside answers.
    """
    most = max(len(row.ids) for row in rows)
    wanted = sum(len(row.ids) if row.wants_all else row.wants_scores for row in rows)
    fitting = [
        kind
        for kind in kinds
        if kind.sequences >= len(rows)
        and kind.new >= most
        and kind.wanted >= wanted
        # Padding a few rows is cheap, padding a prompt beside answers is not.
        and (len(rows) == 1 or most <= DRAFTED[-1])
    ]
    return min(fitting, key=lambda kind: (kind.tokens, kind.wanted), default=None)
