"""Text files whose lines stay the file's lines: the text cleaned, and its lines with offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from app.knowledge.document import Section
from app.knowledge.reading.cleaning import cleaned
from app.knowledge.reading.encoding import decode
from app.knowledge.reading.source import Refused, Source

PRIVATE_KEY = re.compile(r"\s{0,99}-----BEGIN [A-Z ]{0,40}PRIVATE KEY")
"""A key under a name that does not say so."""
MOST_WIDTH = 4
"""Bytes that a character takes at most, in any encoding read here."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A text file as read."""

    text: str
    hidden: int
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    """Without its end."""
    start: int
    """Its first character in the whole text."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def read_lines(source: Source) -> Lines:
    """At most `limits.characters`, cut at a line's end where there is one. Raises Refused."""
    most = source.limits.characters
    data = source.beginning(most * MOST_WIDTH)
    is_cut = source.size > len(data)
    decoded = decode(data, is_cut)
    whole = cleaned(decoded.text[:most])
    text = whole.text
    if PRIVATE_KEY.match(text):
        raise Refused("skipped: secret")
    notices = [decoded.notice] if decoded.notice else []
    if is_long := is_cut or len(decoded.text) > most:
        text = text[: text.rfind("\n") + 1] or text
        notices.append(f"only the beginning was read: {len(text):,} characters")
    if not text.strip():
        raise Refused("too large" if is_long else "skipped: empty")
    return Lines(text, whole.hidden, tuple(notices))


def each_line(text: str) -> Iterator[Line]:
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield Line(text[start:end], start)
        start = end + 1
    if start < len(text):
        yield Line(text[start:], start)


def trimmed(text: str, section: Section) -> Section | None:
    """Without white space at both ends; None when nothing is left."""
    start, end = section.start, section.end
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    if start == end:
        return None
    return Section(start, end, section.headings, section.page, section.header)


def sections_from(text: str, marks: Iterable[Section], most: int) -> tuple[Section, ...]:
    """Sections of these starts: each ends where the next begins; what stands before the first one
    has no headings, nor has what comes after `most` of them. Ends of `marks` are ignored.
    """
    starts = [Section(0, 0), *islice(marks, most + 1)]
    if len(starts) > most + 1:
        starts[-1] = Section(starts[-1].start, 0)
    ends = [mark.start for mark in starts[1:]] + [len(text)]
    found = (
        trimmed(text, Section(mark.start, end, mark.headings, mark.page, mark.header))
        for mark, end in zip(starts, ends, strict=True)
    )
    return tuple(section for section in found if section is not None)
