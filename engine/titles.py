"""Titles of conversations: the instruction that asks for one, and the cleaning of what comes back.

Knows no template and no token.
"""

from __future__ import annotations

import re

INSTRUCTION = (
    "Write a title of at most five words for this conversation. Reply with the title only."
)
MAX_TOKENS = 12
MAX_CHARACTERS = 60

_SPACE = re.compile(r"\s+")
_LABEL = re.compile(r"^(?:\W*\b(?:chat |conversation )?title\b\W*[:\-–—])\s*", re.IGNORECASE)
_QUOTES = "\"'`“”‘’«»„*_# "


def clean_title(text: str) -> str:
    """One line without labels, quotes or control characters; empty when nothing is left."""
    line = next((line for line in text.splitlines() if line.strip(_QUOTES)), "")
    line = "".join(c if c.isprintable() else " " for c in line)
    line = _SPACE.sub(" ", _LABEL.sub("", line)).strip(_QUOTES).rstrip(_QUOTES + ".:;,")
    if len(line) <= MAX_CHARACTERS:
        return line
    return line[:MAX_CHARACTERS].rsplit(" ", 1)[0] + "…"
