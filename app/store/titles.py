"""A chat's first title, from the first line of its first message."""

from __future__ import annotations

from app.sanitize import single_line

TITLE_LENGTH = 60


def title_from(text: str, limit: int = TITLE_LENGTH) -> str:
    """The first line with text in it, cleaned, at most `limit` characters, cut between words."""
    line = next((line for line in map(single_line, text.splitlines()) if line), "")
    return cut(line, limit)


def cut(line: str, limit: int) -> str:
    """At most `limit` characters with `…` at the end where something is missing."""
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    words = head if line[limit - 1] == " " else head.rpartition(" ")[0]
    return (words if len(words) >= limit // 2 else head).rstrip() + "…"
