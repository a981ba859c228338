"""Cuts a document into chunks: stretches of about 900 characters that can be found and cited.

A chunk is an exact stretch of the document's text without white space at its ends. It ends at a
paragraph, else a sentence, a line, a word. Chinese, Japanese and Korean characters count twice.
Small sections beside each other share a chunk when they stand on one page under one heading; a
large one is cut alone. It knows no format and no index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.knowledge.document import Document, Section

RULES = 1
"""Grows with every change here that gives other chunks: indexes are then brought up to date."""

TARGET = 900
"""Characters. Found: 800 to 1,000 give the most evidence within a budget of 4,000."""
LEAST_SHARE = 0.5
"""A cut comes no earlier than at this share of the target."""
HEADER_LIMIT = 300
"""Characters of a table's header that are repeated."""

WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
SENTENCE = re.compile("[.!?…][\"'”’)\\]]*\\s+|[。！？；][”’」』）]*\\s*")
LINE = re.compile(r"\n\s*")
WORD = re.compile(r"\s+|[，、：]")
BORDERS = (PARAGRAPH, SENTENCE, LINE, WORD)
"""Best first; a cut is made after the match."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """`document.text[start:end]` and where it stands."""

    order: int
    start: int
    end: int
    text: str
    headings: tuple[str, ...] = ()
    header: str = ""
    """The header row of the table that it is a part of."""
    page: int | None = None
    last_page: int | None = None
    first_line: int | None = None
    """From 1; None where the text's lines are not the file's lines."""
    last_line: int | None = None


def chunks(document: Document) -> tuple[Chunk, ...]:
    """All chunks in order, without overlap; each character but white space is in one of them."""
    return tuple(located(document))


def located(document: Document) -> Iterator[Chunk]:
    """The chunks with their lines, which are counted on the way."""
    text = document.text
    place, line = 0, 1
    order = 0
    for sections in groups(document):
        for start, end in cuts(text, sections):
            if document.has_lines:
                line += text.count("\n", place, start)
                place = start
            last_line = line + text.count("\n", start, end) if document.has_lines else None
            yield Chunk(
                order=order,
                start=start,
                end=end,
                text=text[start:end],
                headings=shared_headings(sections),
                header=sections[0].header[:HEADER_LIMIT],
                page=sections[0].page,
                last_page=sections[-1].page,
                first_line=line if document.has_lines else None,
                last_line=last_line,
            )
            order += 1


def groups(document: Document) -> Iterator[list[Section]]:
    """Runs of sections that are cut together: small ones beside each other, or one alone."""
    group: list[Section] = []
    used = 0
    for section in document.sections:
        size = width(document.text, section.start, section.end, TARGET)
        if group and (used + size > TARGET or not fit_together(group, section)):
            yield group
            group, used = [], 0
        group.append(section)
        used += size
    if group:
        yield group


def fit_together(group: Sequence[Section], section: Section) -> bool:
    """Whether one chunk may hold both: same page, same table, and a heading above both."""
    last = group[-1]
    if last.page != section.page or last.header != section.header:
        return False
    if last.headings == section.headings:
        return True
    return not section.header and bool(shared_headings([*group, section]))


def shared_headings(sections: Sequence[Section]) -> tuple[str, ...]:
    """The headings that all of them stand under."""
    shared = sections[0].headings
    for section in sections[1:]:
        both = zip(shared, section.headings, strict=False)
        count = next((n for n, (a, b) in enumerate(both) if a != b), None)
        shared = shared[: min(len(shared), len(section.headings)) if count is None else count]
    return shared


def cuts(text: str, sections: Sequence[Section]) -> Iterator[tuple[int, int]]:
    """The stretches of a group, without white space at their ends."""
    start, end = sections[0].start, sections[-1].end
    while start < end:
        stop = next_cut(text, start, end)
        first, last = trimmed(text, start, stop)
        if first < last:
            yield first, last
        start = stop


def next_cut(text: str, start: int, end: int) -> int:
    """Where the chunk that begins at `start` ends: at the best border in reach."""
    limit = reach(text, start, end)
    if limit == end:
        return end
    room = limit - start
    if end - start < 2 * room:
        # The last two share the rest about evenly: no crumb is left over.
        limit = start + min(room, (end - start) * 5 // 8)
    return best_border(text, start + int((limit - start) * LEAST_SHARE), limit)


def best_border(text: str, least: int, limit: int) -> int:
    """The last place between `least` and `limit` after the best kind of border that stands there;
    `limit` where none does.
    """
    for border in BORDERS:
        places = [found.end() for found in border.finditer(text, least, limit)]
        if places:
            return places[-1]
    return limit


def reach(text: str, start: int, end: int) -> int:
    """The farthest end of a chunk that begins at `start`."""
    limit = min(start + TARGET, end)
    used = place = start
    for found in WIDE.finditer(text, start, limit):
        used += found.start() - place + 2
        place = found.end()
        if used - start > TARGET:
            return found.start()
    # Between wide characters one each.
    return min(limit, place + TARGET - (used - start))


def width(text: str, start: int, end: int, enough: int) -> int:
    """Characters of a stretch, wide ones twice; not counted on beyond `enough`."""
    if end - start > enough:
        return end - start
    piece = text[start:end]
    return len(piece) if piece.isascii() else len(piece) + len(WIDE.findall(piece))


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The stretch without white space at its ends."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
