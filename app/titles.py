"""What a model wrote as a title, made into one: a single line, no quotes, no label, not long."""

from __future__ import annotations

import re

from app.sanitize import single_line

TITLE_CHARACTERS = 60

_LABEL = re.compile(r"^\s*(?:title|topic)\s*[:\-]\s*", re.IGNORECASE)
_AROUND = " \t\"'`*_#“”‘’«».:"


def tidy_title(text: str) -> str:
    """The first line that says something; empty when none does."""
    for line in text.splitlines():
        title = _LABEL.sub("", single_line(line)).strip(_AROUND)
        if title:
            return single_line(title, TITLE_CHARACTERS)
    return ""
