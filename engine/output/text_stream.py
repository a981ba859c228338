"""Bytes of tokens -> text that never shows half a character.

A character split over tokens is held back until it is whole. Bytes that can never become a
character turn into U+FFFD, a truncated tail into at most one.
"""

from __future__ import annotations

import codecs


class TextStream:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, piece: bytes) -> str:
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """What is left of an incomplete character."""
        text = self._decoder.decode(b"", True)
        self._decoder.reset()
        return text
