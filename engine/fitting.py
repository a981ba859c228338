"""Which turns a conversation loses when it is longer than the context.

Whole turns go, oldest first; the system prompt and the last turn stay. Pure arithmetic over sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

ROOM_SHARE = 4
"""An answer gets a quarter of the context if nobody said how long it may be."""
LEAST_ROOM = 32
"""Tokens kept free for an answer to a message that nearly fills the context by itself."""


def answer_room(context: int, max_tokens: int | None) -> int:
    """Tokens that are kept free for the answer."""
    share = max(context // ROOM_SHARE, 1)
    return share if max_tokens is None else max(min(max_tokens, context // 2), 1)


def least_room(context: int, max_tokens: int | None) -> int:
    return min(answer_room(context, max_tokens), LEAST_ROOM)


def turns_to_drop(sizes: Sequence[int], excess: int, piece: int) -> int:
    """How many of the oldest turns go, so that at least `excess` tokens go.

    `sizes`: tokens of each turn that may go, oldest first. The tokens that go are rounded up to
    whole pieces: the beginning of the prompt then stays the same for many turns, and is reused.
    """
    if excess <= 0:
        return 0
    wanted = -(-excess // piece) * piece
    gone = 0
    for count, size in enumerate(sizes):
        if gone >= wanted:
            return count
        gone += size
    return len(sizes)
