"""The result of rendering: text that knows which stretches came from which message.

`read_marks` takes the marks out of what a template made of marked messages, and stays right where
the template has cut, moved or doubled them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from models.templates.common_prefix import common_prefix, common_suffix
from models.templates.job import Field, Prepared, RenderJob, Slot
from models.templates.marks import MARK, START, ControlTexts, number, unescaped
from models.templates.turns import Turn


@dataclass(frozen=True, slots=True)
class Span:
    """Characters start..end of a text, which came from a message."""

    message: int
    field: Field
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rendered:
    text: str
    spans: tuple[Span, ...]
    """Ascending, without overlaps, inside the surrounding white space."""
    barriers: frozenset[int]
    """Places outside the spans that no control token may cover."""
    turns: tuple[Turn, ...]
    lost: tuple[int, ...] = ()
    """Messages with content that the template left out."""


def read_marks(job: RenderJob, prepared: Prepared, plain: str, marked: str) -> Rendered:
    """The plain text with its spans; where marks changed what the template did, the next best."""
    found = _parse(marked, prepared.slots, job.controls)
    if _without_enclosure(marked) != plain:
        found = _relocate(found, _parse(plain, prepared.slots, job.controls))
    if job.continue_last:
        found = _cut_after_last(found, len(job.turns) - 1)
    seen = {span.message for span in found.spans if span.field == "content"}
    lost = tuple(
        slot.message
        for slot in prepared.slots
        if slot.field == "content" and slot.text and slot.message not in seen
    )
    return Rendered(found.text, found.spans, found.barriers, job.turns, lost)


@dataclass(frozen=True, slots=True)
class _Parsed:
    text: str
    spans: tuple[Span, ...]
    barriers: frozenset[int]


class _Reader:
    """Takes marks out of a text and remembers where they stood."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self.slots = slots
        self.pieces: list[str] = []
        self.length = 0
        self.open: list[tuple[int, int]] = []
        self.closed: list[tuple[int, int, int]] = []
        self.ends: list[tuple[int, int]] = []
        self.breaks: list[int] = []

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)

    def mark(self, match: re.Match[str]) -> None:
        if match["own"]:
            self.add(unescaped(match["own"]))
        elif match["break"]:
            self.breaks.append(self.length)
        elif match["slot"] and (slot := number(match["slot"])) < len(self.slots):
            self._border(match["kind"], slot)

    def _border(self, kind: str, slot: int) -> None:
        if kind == START:
            self.open.append((slot, self.length))
            return
        for depth in range(len(self.open) - 1, -1, -1):
            if self.open[depth][0] == slot:
                self.closed.append((slot, self.open[depth][1], self.length))
                del self.open[depth:]
                return
        self.ends.append((slot, self.length))

    def spans(self, text: str, controls: ControlTexts) -> Iterator[tuple[int, int, int]]:
        """Slot, start and end; of a half-marked text, what is left of the original.

        A guessed border never takes in a control token that the template wrote.
        """
        yield from self.closed
        breaks = frozenset(self.breaks)
        for slot, start in self.open:
            original = self.slots[slot].text
            end = start + common_prefix(text[start : start + len(original)], original)
            near = min(end + controls.longest, len(text))
            for first, _ in controls.unbroken(text, start, near, breaks):
                end = min(end, first)
            yield slot, start, end
        for slot, end in self.ends:
            start = end - common_suffix(text[:end], self.slots[slot].text)
            near = max(start - controls.longest, 0)
            for _, last in controls.unbroken(text, near, end, breaks):
                start = max(start, last)
            yield slot, start, end


def _parse(marked: str, slots: tuple[Slot, ...], controls: ControlTexts) -> _Parsed:
    reader, position = _Reader(slots), 0
    for match in MARK.finditer(marked):
        reader.add(marked[position : match.start()])
        reader.mark(match)
        position = match.end()
    reader.add(marked[position:])
    text = "".join(reader.pieces)
    spans = _disjoint(
        Span(slots[slot].message, slots[slot].field, start, end)
        for slot, start, end in reader.spans(text, controls)
    )
    return _Parsed(text, spans, frozenset(reader.breaks))


def _disjoint(spans: Iterator[Span]) -> tuple[Span, ...]:
    """Sorted; of overlapping ones the outer or earlier."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        start = max(span.start, kept[-1].end) if kept else span.start
        if start < span.end:
            kept.append(Span(span.message, span.field, start, span.end))
    return tuple(kept)


def _without_enclosure(marked: str) -> str:
    return MARK.sub(lambda match: "" if match["slot"] else match[0], marked)


def _relocate(marked: _Parsed, plain: _Parsed) -> _Parsed:
    """The marked text's spans, moved into the plain text; all of the marked one if that fails."""
    shift = len(plain.text) - len(marked.text)
    same = common_prefix(marked.text, plain.text)
    spans: list[Span] = []
    tail = common_suffix(marked.text[same:], plain.text[same:])
    position = 0
    for span in marked.spans:
        if span.end <= same:
            moved: Span | None = span
        elif span.start >= len(marked.text) - tail:
            moved = Span(span.message, span.field, span.start + shift, span.end + shift)
        else:
            moved = _search(plain, marked.text[span.start : span.end], span, position)
        if moved is None or moved.start < position:
            return marked
        position = moved.end
        spans.append(moved)
    return _Parsed(plain.text, tuple(spans), plain.barriers)


def _search(plain: _Parsed, text: str, span: Span, position: int) -> Span | None:
    start = plain.text.find(text, position)
    return None if start < 0 else Span(span.message, span.field, start, start + len(text))


def _cut_after_last(parsed: _Parsed, message: int) -> _Parsed:
    """Everything behind the last text of the last message goes, so that the answer can go on."""
    ends = [span.end for span in parsed.spans if span.message == message]
    if not ends:
        return parsed
    end = max(ends)
    return _Parsed(parsed.text[:end], parsed.spans, parsed.barriers)
