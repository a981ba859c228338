"""Other marked-up text as it stands, under its headings: reStructuredText, Org, AsciiDoc, LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from app.knowledge.document import Document, Section
from app.knowledge.reading.headings import Headings
from app.knowledge.reading.lines import Line, each_line, read_lines, sections_from
from app.knowledge.reading.source import Source

SIGNS = {
    ".org": re.compile(r"(\*{1,8})[ \t]+(\S.{0,300})"),
    ".adoc": re.compile(r"(={1,6})[ \t]+(\S.{0,300})"),
}
"""Headings of one line, as deep as they have signs."""
COMMANDS = re.compile(
    r"\\(part|chapter|section|subsection|subsubsection|paragraph)\*?\{([^{}]{1,300})\}"
)
LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
RULE = re.compile(r"([=\-~^\"'`#*+:.<>_])\1{2,200}[ \t]*$")
"""reStructuredText's line below a heading, and sometimes above it."""

Marks = Iterator[Section]


def read_markup(source: Source) -> Document:
    lines = read_lines(source)
    marks = _reader(source.suffix)(lines.text)
    return Document(
        "text",
        lines.text,
        sections_from(lines.text, marks, source.limits.sections),
        has_lines=True,
        hidden_characters=lines.hidden,
        notices=lines.notices,
    )


def _reader(suffix: str) -> Callable[[str], Marks]:
    if suffix == ".rst":
        return _underlined
    if suffix in (".tex", ".latex"):
        return _commanded
    pattern = SIGNS[".adoc" if suffix == ".asciidoc" else suffix]
    return lambda text: _signed(text, pattern)


def _signed(text: str, pattern: re.Pattern[str]) -> Marks:
    headings = Headings()
    for line in each_line(text):
        if match := pattern.match(line.text):
            yield Section(line.start, 0, headings.enter(len(match[1]), match[2]))


def _commanded(text: str) -> Marks:
    headings = Headings()
    for line in each_line(text):
        if match := COMMANDS.match(line.text.lstrip()):
            yield Section(line.start, 0, headings.enter(LEVELS.index(match[1]), match[2]))


def _underlined(text: str) -> Marks:
    """Levels by the order in which the kinds of lines appear, as the format says."""
    headings = Headings()
    kinds: list[str] = []
    before, title = Line("", 0), Line("", 0)
    for line in each_line(text):
        if kind := _kind(before.text, title.text, line.text):
            if kind not in kinds:
                kinds.append(kind)
            start = before.start if len(kind) > 1 else title.start
            yield Section(start, 0, headings.enter(kinds.index(kind), title.text))
            before, title = Line("", line.end), Line("", line.end)
        else:
            before, title = title, line


def _kind(before: str, title: str, line: str) -> str:
    """The sign of a heading's lines, twice when one stands above it too; empty for no heading."""
    words, rule = title.strip(), RULE.match(line)
    if rule is None or not words or RULE.match(title) or len(line.rstrip()) < len(title.rstrip()):
        return ""
    if before.rstrip() == line.rstrip():
        return rule[1] * 2
    return "" if before.strip() or title[0].isspace() else rule[1]
