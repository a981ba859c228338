"""Programs: the text as it is, in sections at its definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.knowledge.document import Document, Section
from app.knowledge.reading.headings import Headings
from app.knowledge.reading.lines import each_line, read_lines, sections_from
from app.knowledge.reading.source import Source

DEFINITION = re.compile(
    r"([ \t]{0,40})"
    r"(?:(?:export|default|pub|public|private|protected|static|async|abstract|final|open|sealed"
    r"|data|local)[ \t]+){0,5}"
    r"(?:class|def|fn|func|fun|function|struct|enum|trait|impl|interface|module|namespace|object"
    r"|protocol|CREATE (?:TABLE|VIEW|FUNCTION))[ \t]+(?:\([^)\n]{0,80}\)[ \t]*)?"
    r"(\w[\w.$]{0,99}(?:::\w{1,99})*)"
)
"""A definition in most languages: the words that stand before a name, at some indentation."""
TAB_WIDTH = 8


def read_code(source: Source) -> Document:
    lines = read_lines(source)
    return Document(
        "code",
        lines.text,
        sections_from(lines.text, _marks(lines.text), source.limits.sections),
        has_lines=True,
        hidden_characters=lines.hidden,
        notices=lines.notices,
    )


def _marks(text: str) -> Iterator[Section]:
    """Where definitions begin; a deeper indentation stands inside the one above."""
    headings = Headings()
    for line in each_line(text):
        if match := DEFINITION.match(line.text):
            indentation = len(match[1].expandtabs(TAB_WIDTH))
            yield Section(line.start, 0, headings.enter(indentation, match[2]))
