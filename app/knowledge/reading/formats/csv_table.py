"""Tables as text: lines stay the file's lines, and the first row is the header where it is one."""

from __future__ import annotations

import csv
import re

from app.knowledge.document import Document, Section
from app.knowledge.reading.lines import Lines, read_lines, sections_from
from app.knowledge.reading.source import Source

DELIMITERS = ",;\t|"
SAMPLE_CHARACTERS = 65_536
SEPARATOR_LINE = re.compile(r"sep=(.)[ \t]*\n")
"""A spreadsheet's note about its delimiter, in front of the header."""
LONGEST_HEADER = 2_000
"""Characters; a longer first row is repeated nowhere."""
NUMBER = re.compile(r"[-+]?[\d.,:/%\s]*\d[\d.,:/%\s]*$")


def read_csv(source: Source) -> Document:
    lines = read_lines(source)
    begin, header = _header(lines.text, source.suffix)
    marks = [Section(begin, 0, header=header)]
    return Document(
        "csv",
        lines.text,
        sections_from(lines.text, marks, source.limits.sections),
        has_lines=True,
        hidden_characters=lines.hidden,
        notices=_notices(lines),
    )


def _notices(lines: Lines) -> tuple[str, ...]:
    """A cut table says up to which line it was read."""
    count = lines.text.count("\n")
    return tuple(
        f"{notice} (lines 1 to {count:,})" if notice.startswith("only") else notice
        for notice in lines.notices
    )


def _header(text: str, suffix: str) -> tuple[int, str]:
    """Where the table begins, and its header row as it stands there; empty without one."""
    begin, delimiter = 0, "\t" if suffix in (".tsv", ".tab") else ""
    if match := SEPARATOR_LINE.match(text):
        begin, delimiter = match.end(), match[1]
    sample = text[begin : begin + SAMPLE_CHARACTERS]
    begin += len(sample) - len(sample.lstrip("\n"))
    end = _record_end(text, begin)
    record = text[begin:end]
    cells = _cells(record, delimiter or max(DELIMITERS, key=record.count))
    is_header = len(record) <= LONGEST_HEADER and end < len(text.rstrip())
    if not is_header or not any(cells) or any(NUMBER.match(cell) for cell in cells):
        return begin, ""
    return begin, record.strip()


def _record_end(text: str, begin: int) -> int:
    """The end of the line on which the first record ends: a quoted cell may hold line ends."""
    end = begin
    while True:
        end = text.find("\n", end)
        if end < 0 or end - begin > LONGEST_HEADER:
            line_end = text.find("\n", begin)
            return len(text) if line_end < 0 else line_end
        if text.count('"', begin, end) % 2 == 0:
            return end
        end += 1


def _cells(record: str, delimiter: str) -> list[str]:
    try:
        rows = list(csv.reader([record.replace("\n", " ")], delimiter=delimiter))
    except csv.Error:
        return []
    return [cell.strip() for cell in rows[0]] if rows else []
