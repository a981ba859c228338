"""What was written and not sent, and which of it was pasted: that stays text of others, also when
the draft is opened again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.attached import Attachment
    from app.store.conversation import Message


@dataclass(frozen=True, slots=True)
class Pasted:
    """A stretch of a draft."""

    start: int
    end: int
    name: str = ""
    """Of a file that was attached."""


@dataclass(frozen=True, slots=True)
class KeptDraft:
    text: str = ""
    pasted: tuple[Pasted, ...] = ()
    """In order, none over another."""


def draft_of(text: str, attached: Sequence[Attachment]) -> KeptDraft:
    """A draft whose pastes are known; those that do not stand in it any more are left out."""
    pasted, position = [], 0
    for one in attached:
        start = text.find(one.labelled, position)
        if start >= 0:
            position = start + len(one.labelled)
            pasted.append(Pasted(start, position, one.name))
    return KeptDraft(text, tuple(pasted))


def draft_from(message: Message) -> KeptDraft:
    """A message to be sent once more."""
    given = None if message.sources is None else message.sources.given
    stretches = () if given is None else given.stretches
    return KeptDraft(message.text, tuple(Pasted(start, end) for start, end in stretches))
