"""Marks that show which text of a rendered prompt came from a message.

Unicode's noncharacters U+FDD0..U+FDEF never stand for text, so they travel through a template as
marks: one before and one after each text of a message, and a break inside every spelling of a
control token. A text's own noncharacters are escaped first. Knows nothing of templates, roles or
ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Set

START, END, BREAK, ESCAPE = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
_DIGITS = "\ufdd8\ufdd9\ufdda\ufddb\ufddc\ufddd\ufdde\ufddf"
_OWN = re.compile("[\ufdd0-\ufdef]")
_NUMBER = f"[{_DIGITS[0]}-{_DIGITS[-1]}]"
MARK = re.compile(
    f"(?P<kind>[{START}{END}])(?P<slot>{_NUMBER}{{1,11}})|(?P<break>{BREAK})"
    f"|{ESCAPE}(?P<own>{_NUMBER}{{2}})|(?P<stray>[\ufdd0-\ufdef])"
)


def digits(number: int) -> str:
    return "".join(_DIGITS[int(digit)] for digit in f"{number:o}")


def number(marks: str) -> int:
    return int("".join(str(_DIGITS.index(mark)) for mark in marks), 8)


def escape(text: str) -> str:
    """The text with its own noncharacters written as two digits behind an escape mark."""
    return _OWN.sub(lambda match: ESCAPE + digits(0o100 + ord(match[0]) - 0xFDD0)[1:], text)


def unescaped(marks: str) -> str:
    return chr(0xFDD0 + number(marks) % 32)


def enclose(text: str, slot: int) -> str:
    """Marks around the text inside its surrounding white space; nothing around an empty one."""
    core = text.strip()
    if not core:
        return text
    start = text.index(core)
    before, after = text[:start], text[start + len(core) :]
    return f"{before}{START}{digits(slot)}{core}{END}{digits(slot)}{after}"


class ControlTexts:
    """Finds the spellings of control tokens in a text; quick for thousands of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(text for text in texts if text)
        self._lengths = sorted({len(text) for text in self._texts}, reverse=True)
        starts = "".join(re.escape(first) for first in sorted({text[0] for text in self._texts}))
        self._candidate = re.compile(f"[{starts}]") if starts else None

    @property
    def longest(self) -> int:
        """Characters of the longest spelling."""
        return self._lengths[0] if self._lengths else 0

    def unbroken(
        self, text: str, start: int, end: int, breaks: Set[int]
    ) -> Iterator[tuple[int, int]]:
        """The spellings inside text[start:end] that no break lies in, one after the other."""
        position = start
        while (found := self.find(text, position, end)) is not None:
            if any(at in breaks for at in range(found[0] + 1, found[1])):
                position = found[0] + 1
                continue
            yield found
            position = found[1]

    def find(self, text: str, start: int, end: int) -> tuple[int, int] | None:
        """The first, and there the longest, spelling inside text[start:end]."""
        if self._candidate is None:
            return None
        for match in self._candidate.finditer(text, start, end):
            at = match.start()
            for length in self._lengths:
                if at + length <= end and text[at : at + length] in self._texts:
                    return at, at + length
        return None

    def broken(self, text: str) -> str:
        """The text with a break mark inside every spelling, overlapping ones included."""
        pieces: list[str] = []
        done = position = 0
        while (found := self.find(text, position, len(text))) is not None:
            at = found[0] + 1 if found[1] - found[0] > 1 else found[0]
            pieces += (text[done:at], BREAK)
            done, position = at, found[0] + 1
        return "".join(pieces) + text[done:] if pieces else text


def map_texts(
    value: object, change: Callable[[str], str], change_key: Callable[[str], str]
) -> object:
    """A JSON-like value with every text in it changed; keys in their own way."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [map_texts(item, change, change_key) for item in value]
    if isinstance(value, dict):
        return {
            change_key(str(key)): map_texts(item, change, change_key) for key, item in value.items()
        }
    return value
