"""Takes the mark of a fence out of an answer, also while it streams: small models repeat it."""

from __future__ import annotations

import re

OPENINGS, CLOSINGS = ("<<", "[", ""), (">>", "]", "")


class Unmarked:
    """An answer that arrives in parts, without a mark in whatever case, and its brackets."""

    def __init__(self, mark: str) -> None:
        """An empty mark stands nowhere."""
        self._forms = [
            f"{opening}{mark}{closing}" for opening in OPENINGS for closing in CLOSINGS if mark
        ]
        either = "(?:<<|\\[)?", "(?:>>|\\])?"
        self._mark = re.compile(re.escape(mark).join(either) if mark else "(?!)", re.IGNORECASE)
        self._held = ""

    def add(self, text: str) -> str:
        """What can be shown now: all but an end that the next words may make the mark."""
        text = self._held + text
        start = self._undecided(text)
        self._held = text[start:]
        return self._mark.sub("", text[:start])

    def end(self) -> str:
        held, self._held = self._held, ""
        return self._mark.sub("", held)

    def _undecided(self, text: str) -> int:
        longest = max(map(len, self._forms), default=0)
        for start in range(max(len(text) - longest, 0), len(text)):
            if any(form.startswith(text[start:].lower()) for form in self._forms):
                return start
        return len(text)


def without_mark(text: str, mark: str) -> str:
    stream = Unmarked(mark)
    return stream.add(text) + stream.end()
