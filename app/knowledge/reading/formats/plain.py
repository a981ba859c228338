"""Plain text, and anything whose content is text although its name says nothing."""

from __future__ import annotations

from app.knowledge.document import Document
from app.knowledge.reading.lines import read_lines, sections_from
from app.knowledge.reading.source import Source


def read_plain(source: Source) -> Document:
    lines = read_lines(source)
    return Document(
        "text",
        lines.text,
        sections_from(lines.text, (), source.limits.sections),
        has_lines=True,
        hidden_characters=lines.hidden,
        notices=lines.notices,
    )
