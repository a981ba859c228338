"""Where an answer is from, in words for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.knowledge.sources import Citation

UNSUPPORTED = "unsupported: not in the passage in these words"
COMPARED = "found by comparison: the answer names no source"


def source_lines(citations: Sequence[Citation]) -> Iterator[str]:
    """`[1] handbook.pdf p. 12`, one line a source."""
    for one in citations:
        doubt = "" if one.supported else f" · {UNSUPPORTED}"
        found = "" if one.named else f" · {COMPARED}"
        yield f"[{one.number}] {exact_place(one)}{doubt}{found}"


def exact_place(citation: Citation) -> str:
    """The page or the lines that the citation points at, within its passage's place."""
    name = citation.place
    if citation.page is not None:
        is_one = citation.last_page in (None, citation.page)
        pages = f"{citation.page}" if is_one else f"{citation.page}-{citation.last_page}"
        return f"{name.rpartition(' p. ')[0] or name} p. {pages}"
    if citation.first_line is None or citation.last_line is None:
        return name
    file = name.rpartition(":")[0] or name
    more = "" if citation.last_line == citation.first_line else f"-{citation.last_line}"
    return f"{file}:{citation.first_line}{more}"
