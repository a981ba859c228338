"""Bytes of tokens -> text that never shows half a character.

A character split over tokens is held back until it is whole. Bytes that can never become a
character turn into U+FFFD, a truncated tail into at most one.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

_MOST_HALF_BYTES = 3


def half_character(ids: Iterable[int], piece: Callable[[int], bytes]) -> bytes:
    """The bytes of a character that tokens begin and do not end; `ids` from the last one back."""
    tail = b""
    for token_id in ids:
        data = piece(token_id)
        tail = data + tail
        if not data or len(tail) >= _MOST_HALF_BYTES:
            break
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(tail[-_MOST_HALF_BYTES:])
    return decoder.getstate()[0]


class TextStream:
    def __init__(self, begun: bytes = b"") -> None:
        """`begun`: as `half_character` gives them, what came before."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder.decode(begun)

    def push(self, piece: bytes) -> str:
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """What is left of an incomplete character."""
        text = self._decoder.decode(b"", True)
        self._decoder.reset()
        return text
