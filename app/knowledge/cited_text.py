"""Takes numbers that name no document out of an answer, and the mark of the documents' fences, also
while it streams.

Knows how a citation is written, `[2]`, `[1, 3]` or `[^4]`, and how many documents there are. Code
is left as it is: `a[9]` there is no citation. A number of four digits is a year.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.knowledge.unmarked import Unmarked, without_mark

OPEN, CLOSE = "[\\[【［]\\^?", "[\\]】］]"
DASHES = "–—‑−-"
BETWEEN = f",;、，{DASHES}"
NUMBERS = f"\\d{{1,3}}(?:\\s{{0,3}}[{BETWEEN}]\\s{{0,3}}\\d{{1,3}}){{0,40}}"
TOKEN = re.compile(
    "(?P<fence>^[ \t]*(?P<ticks>`{3,}|~{3,}).*?(?:^[ \t]*(?P=ticks)|\\Z))"
    "|(?P<code>(?P<run>`+)(?!`)[^\n]*?(?:(?<!`)(?P=run)(?!`)|\n|\\Z))"
    f"|(?:(?<![ \t])[ \t]+)?{OPEN}\\s{{0,3}}(?P<numbers>{NUMBERS})\\s{{0,3}}{CLOSE}",
    re.MULTILINE | re.DOTALL,
)
UNDECIDED = re.compile(f"[ \t]*(?:{OPEN}[\\d\\s{BETWEEN}]*)*\\Z")
"""The end of a text that the next words may make a citation with an unknown number, or that may
become one when what stands between is taken out.
"""
LONGEST = 500
"""Characters of a citation."""
HALF = re.compile(f"[ \t]*{OPEN}\\s*\\d[\\d\\s{BETWEEN}]*\\Z")
"""A citation that the end of an answer cut off."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One bracket with numbers."""

    start: int
    """Of the space before it."""
    end: int
    numbers: tuple[int, ...]


def marks(text: str) -> Iterator[Mark]:
    """The citations of a text, outside code."""
    for match in TOKEN.finditer(text):
        if match["numbers"] is not None:
            yield Mark(match.start(), match.end(), tuple(spelled(match["numbers"])))


def spelled(numbers: str) -> Iterator[int]:
    """`1, 3-5` as numbers; a range that goes down is its two ends."""
    for part in re.split("[,;、，]", numbers):
        ends = [int(end) for end in re.split(f"[{DASHES}]", part)]
        if len(ends) == 2 and ends[0] < ends[1]:
            yield from range(ends[0], ends[1] + 1)
        else:
            yield from ends


def known_only(text: str, known: int, mark: str = "") -> str:
    """The text without the mark, without numbers outside 1 to `known`, and without half a citation
    at its end.
    """
    text = without_mark(text, mark)
    # Again and again: what stood behind a number may begin a line now, and with it a block of code.
    while (shorter := without_unknown(without_half(text), known)) != text:
        text = shorter
    return text


def without_half(text: str) -> str:
    half = HALF.search(text, decided(text))
    return text[: half.start()] if half else text


def without_unknown(text: str, known: int) -> str:
    pieces: list[str] = []
    position = 0
    for mark in marks(text):
        good = [number for number in mark.numbers if 1 <= number <= known]
        if len(good) == len(mark.numbers):
            continue
        pieces.append(text[position : mark.start])
        if good:
            pieces.append(" " * (text[mark.start] in " \t") + f"[{', '.join(map(str, good))}]")
        position = mark.end
    return "".join(pieces) + text[position:]


class CitedText:
    """An answer that arrives in parts; what is shown of it is never taken back."""

    def __init__(self, known: int, mark: str = "") -> None:
        """`known`: how many documents there are; `mark`: of their fences."""
        self._known = known
        self._unmarked = Unmarked(mark)
        self._raw = ""
        self._shown = ""

    def add(self, text: str) -> str:
        """What can be shown now; the rest follows with the next part or the end."""
        self._raw += self._unmarked.add(text)
        shown = known_only(self._raw[: decided(self._raw)], self._known)
        return self._show(shown[: decided(shown)])

    def end(self) -> str:
        self._raw += self._unmarked.end()
        return self._show(known_only(self._raw, self._known))

    def _show(self, shown: str) -> str:
        new, self._shown = shown[len(self._shown) :], shown
        return new


def decided(text: str) -> int:
    """How many characters no further text can change."""
    start = max(len(text) - LONGEST, 0)
    for match in TOKEN.finditer(text):
        if match["numbers"] is None:  # code
            start = max(start, match.end())
    tail = UNDECIDED.search(text, start)
    assert tail is not None
    return tail.start()
