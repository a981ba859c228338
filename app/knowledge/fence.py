"""Text of others between two lines with a mark: data, whatever it says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import count


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


def same_mark(texts: Sequence[str]) -> str:
    """One that follows from the texts and stands in none: a seed gives the same answer again."""
    digest = blake2b(digest_size=32)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    marks = (_mark(digest.digest(), number) for number in count())
    return next(mark for mark in marks if not any(mark in text for text in texts))


def _mark(key: bytes, number: int) -> str:
    return blake2b(number.to_bytes(8, "big"), key=key, digest_size=4).hexdigest()
