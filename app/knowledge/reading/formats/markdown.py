"""Markdown: sections at headings, tables with their header row; lines stay the file's lines.

HTML comments, which no reader of the page sees, are taken out and counted as hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from app.knowledge.document import Document, Section
from app.knowledge.reading.headings import MOST_CHARACTERS, Headings
from app.knowledge.reading.lines import Line, each_line, read_lines, sections_from
from app.knowledge.reading.source import Refused, Source

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
CLOSING = re.compile(r"(?:^|[ \t])#+[ \t]*$")
UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
BLOCK_START = re.compile(r" {0,3}(?:[>|]|[-*+] |\d{1,9}[.)] |(?:[-*_] ?){3,}$|<)|\t| {4}|$")
"""Lines that cannot be the text of an underlined heading."""
DELIMITER = re.compile(r" {0,3}\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$")
LINK = re.compile(r"!?\[([^\]\[]{0,300})\]\([^)\s]{0,2000}\)")
FRONT_MATTER_TITLE = re.compile(r"title:[ \t]*[\"']?(.+?)[\"']?[ \t]*$")
MOST_FRONT_MATTER = 200
"""Lines; a longer one is a page that begins with a rule."""
LONGEST_LINE = 2_000
"""Characters of a line that may be a heading, a fence or a table row's delimiter."""


def read_markdown(source: Source) -> Document:
    lines = read_lines(source)
    text, hidden = without_comments(lines.text)
    if not text.strip():
        raise Refused("skipped: empty")
    sections = sections_from(text, markdown_marks(text, Headings()), source.limits.sections)
    titles = (section.headings[0] for section in sections if section.headings)
    return Document(
        "markdown",
        text,
        sections,
        title=_front_title(text) or next(titles, ""),
        has_lines=True,
        hidden_characters=lines.hidden + hidden,
        notices=lines.notices,
    )


def without_comments(text: str) -> tuple[str, int]:
    """The text with `<!-- … -->` outside code replaced by its line ends, and how many characters
    were taken out.
    """
    if "<!--" not in text:
        return text, 0
    pieces: list[str] = []
    position = 0
    for line, is_code in _lines_and_code(each_line(text)):
        start = max(position, line.start)
        while not is_code and (start := _comment_start(line, start)) >= 0:
            end = text.find("-->", start + 2)  # `<!-->` is a whole comment
            end = len(text) if end < 0 else end + 3
            pieces += [text[position:start], "\n" * text.count("\n", start, end)]
            position = start = end
    pieces.append(text[position:])
    shorter = "".join(pieces)
    return shorter, len(text) - len(shorter)


def _comment_start(line: Line, start: int) -> int:
    """Where in the whole text a comment begins on this line from `start` on, outside of quoted
    code; -1 without one.
    """
    at = start - line.start
    quotes = 0
    while at < len(line.text) and (found := line.text.find("<!--", at)) >= 0:
        quotes += line.text.count("`", at, found)
        if quotes % 2 == 0:
            return line.start + found
        at = found + 1
    return -1


def markdown_marks(text: str, headings: Headings) -> Iterator[Section]:
    """Where sections begin: at each heading, each table and after each table. `headings`: those
    that the text itself stands under; its own are entered there.
    """
    rows = list(_lines_and_code(each_line(text)))
    in_table = False
    begin = _front_matter_lines(text)
    for number, (line, is_code) in enumerate(rows[begin:], begin):
        after = rows[number + 1] if number + 1 < len(rows) else None
        before = rows[number - 1][0].text if number > begin else ""
        if is_code or len(line.text) > LONGEST_LINE:
            continue
        if found := _heading(line.text, before, after):
            in_table = False
            yield Section(line.start, 0, headings.enter(*found))
        elif not in_table and _is_table(line.text, after):
            in_table = True
            yield Section(line.start, 0, headings.path, header=line.text.strip())
        elif in_table and "|" not in line.text:
            in_table = False
            yield Section(line.start, 0, headings.path)


def _heading(text: str, before: str, after: tuple[Line, bool] | None) -> tuple[int, str] | None:
    """Level and words of a heading that begins on this line."""
    if match := HEADING.match(text):
        return len(match[1]), plain_words(CLOSING.sub("", text[match.end(1) :]))
    follows = before.strip() and not HEADING.match(before)  # the text of a paragraph goes on
    if after is None or after[1] or follows or BLOCK_START.match(text):
        return None
    if len(after[0].text) <= LONGEST_LINE and (match := UNDERLINE.match(after[0].text)):
        return (1 if match[1][0] == "=" else 2), plain_words(text)
    return None


def _is_table(text: str, after: tuple[Line, bool] | None) -> bool:
    if "|" not in text or after is None or after[1] or len(after[0].text) > LONGEST_LINE:
        return False
    return DELIMITER.match(after[0].text) is not None


def plain_words(text: str) -> str:
    """A heading's words without emphasis, code marks and link targets."""
    return LINK.sub(r"\1", text).replace("*", "").replace("`", "").strip()


def _lines_and_code(lines: Iterable[Line]) -> Iterator[tuple[Line, bool]]:
    """Each line, and whether it belongs to a fenced block."""
    fence = ""
    for line in lines:
        match = FENCE.match(line.text) if len(line.text) <= LONGEST_LINE else None
        if not fence:
            fence = match[1] if match else ""
            yield line, bool(fence)
            continue
        if match and match[1].startswith(fence) and not match[2].strip():
            fence = ""
        yield line, True


def _front_matter_lines(text: str) -> int:
    """How many lines the block of settings at the top takes; 0 without one."""
    if not text.startswith("---\n"):
        return 0
    for number, line in enumerate(each_line(text[:100_000])):
        if number > MOST_FRONT_MATTER:
            break
        if number and line.text.rstrip() in ("---", "..."):
            return number + 1
    return 0


def _front_title(text: str) -> str:
    count = _front_matter_lines(text)
    for line, _ in zip(each_line(text[:100_000]), range(count), strict=False):
        if len(line.text) <= LONGEST_LINE and (match := FRONT_MATTER_TITLE.match(line.text)):
            return " ".join(match[1].split())[:MOST_CHARACTERS]
    return ""
