"""JSON as it stands in the file, line by line, with escaped letters written out."""

from __future__ import annotations

import re

from app.knowledge.document import Document
from app.knowledge.reading.cleaning import cleaned
from app.knowledge.reading.encoding import joined_halves
from app.knowledge.reading.lines import read_lines, sections_from
from app.knowledge.reading.source import Source

ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def read_json(source: Source) -> Document:
    lines = read_lines(source)
    clean = cleaned(written_out(lines.text))
    return Document(
        "json",
        clean.text,
        sections_from(clean.text, (), source.limits.sections),
        has_lines=True,
        hidden_characters=lines.hidden + clean.hidden,
        notices=lines.notices,
    )


def written_out(text: str) -> str:
    r"""`\u4f60` becomes 你, so that it is found; escapes of ASCII and of line ends stay."""
    if "\\u" not in text:
        return text
    return joined_halves(ESCAPE.sub(_character, text))


def _character(match: re.Match[str]) -> str:
    code = int(match[1] or "0", 16)
    return chr(code) if code >= 0xA0 else match[0]
