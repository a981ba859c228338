"""The path of headings that a place stands under."""

from __future__ import annotations

MOST_CHARACTERS = 200
"""Of one heading: a longer one is a paragraph in a heading's clothes."""


class Headings:
    """A stack: a heading ends those of its level and below."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, text: str) -> tuple[str, ...]:
        """The path from here on; a heading without text only closes others."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        text = " ".join(text.split())[:MOST_CHARACTERS]
        if text:
            self._open.append((level, text))
        return self.path

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(text for _, text in self._open)
