"""What of a text a database can hold."""

from __future__ import annotations


def storable(text: str) -> str:
    """Text that UTF-8 can hold: lone surrogates become replacement marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
