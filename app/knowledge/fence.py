"""Text of others between two lines with a mark: data, whatever it says."""

from __future__ import annotations

from collections.abc import Iterable


def fence(text: str, mark: str) -> str:
    """Between two lines with the mark, which a small model is not tempted to repeat."""
    return f"<<{mark}\n{text}\n{mark}>>\n"


def unused_mark(texts: Iterable[str]) -> str:
    """A mark that nobody could know when the texts were written, and that stands in none."""
    import secrets  # not before the first paint

    known = list(texts)
    while any((mark := secrets.token_hex(4)) in text for text in known):
        pass
    return mark if known else secrets.token_hex(4)
