"""Stop strings in a stream: found across token borders, never shown, not even their beginning.

The string that is complete first wins, of those the longest, so the result does not depend on how
the text was cut into tokens.
"""

from __future__ import annotations

from collections.abc import Iterable


def held_back(text: str, tags: Iterable[str]) -> int:
    """Length of the longest end of `text` that begins one of `tags` without being all of it."""
    longest = 0
    for tag in tags:
        for length in range(min(len(tag) - 1, len(text)), longest, -1):
            if tag.startswith(text[-length:]):
                longest = length
                break
    return longest


class StopStrings:
    """Feed text, get back what may be shown; `found` is the stop string that ended it."""

    def __init__(self, strings: tuple[str, ...]) -> None:
        self._strings = tuple(string for string in strings if string)
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        if not self._strings:
            return text
        text = self._held + text
        end = self._first_end(text)
        if end is not None:
            self._held = ""
            return text[:end]
        keep = held_back(text, self._strings)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What was held back and did not become a stop string."""
        text, self._held = self._held, ""
        return text

    def _first_end(self, text: str) -> int | None:
        matches = [
            (start + len(string), start, string)
            for string in self._strings
            if (start := text.find(string)) >= 0
        ]
        if not matches:
            return None
        _, start, self.found = min(matches)
        return start
