"""What a search finds: stretches of documents with their place, their score and its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of one document, as it is shown to the model and cited."""

    path: Path
    """The file; what is shown of it goes through the sanitiser."""
    name: str
    """Path relative to its root, undecodable bytes and control characters escaped."""
    text: str
    start: int
    """Characters of the document's text."""
    end: int
    headings: tuple[str, ...] = ()
    page: int | None = None
    last_page: int | None = None
    first_line: int | None = None
    last_line: int | None = None
    header: str = ""
    """A table's header row."""
    score: float = 0.0
    reason: str = ""
    """In words: `words .81 + meaning .42`."""
    other_names: tuple[str, ...] = ()
    """Files with the same bytes."""
    hidden_characters: int = 0
    """Invisible characters taken out of the whole document."""
    page_starts: tuple[tuple[int, int], ...] = ()
    """Character of the document and number of each page that begins inside the passage."""
    is_notes: bool = False
    """The text is what a model noted of the stretch, not the stretch itself."""

    @property
    def place(self) -> str:
        """`handbook.pdf p. 12`, `notes.md:40-58`, `report.docx › Costs`."""
        if self.page is not None:
            more = self.last_page is not None and self.last_page != self.page
            return f"{self.name} p. {self.page}" + (f"-{self.last_page}" if more else "")
        if self.first_line is not None:
            more = self.last_line is not None and self.last_line != self.first_line
            return f"{self.name}:{self.first_line}" + (f"-{self.last_line}" if more else "")
        return " › ".join((self.name, *self.headings))


class Stretch(Protocol):
    """A part of a document."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def first_line(self) -> int | None: ...
    @property
    def last_line(self) -> int | None: ...


def joined(stretches: Sequence[Stretch]) -> str:
    """Their text. The white space between two was not kept: its characters and its line ends are
    as many as they were, so that offsets and lines stay exact.
    """
    parts = [stretches[0].text]
    for before, after in pairwise(stretches):
        parts += [gap(before, after), after.text]
    return "".join(parts)


def gap(before: Stretch, after: Stretch) -> str:
    length = after.start - before.end
    if before.last_line is None or after.first_line is None:
        return "\n" * length
    ends = min(after.first_line - before.last_line, length)
    return " " * (length - ends) + "\n" * ends


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The answer of a search."""

    passages: tuple[Passage, ...]
    """Within the budget, ordered by document and position; the nearest ones where it is refused."""
    unused: tuple[Passage, ...] = ()
    """Found, but beyond the budget or the share of one document; best first."""
    is_refused: bool = False
    """Nothing in the documents is close enough: no answer may be made of it."""
    reason: str = ""
    """Why it was refused, or what limited the search, in a sentence: what was searched, how much of
    it is indexed."""
    needs_all: bool = False
    """The question asks about all of a document (count, list, summarise, compare, newest)."""

    @property
    def best_first(self) -> tuple[Passage, ...]:
        """All that was found, by score."""
        return tuple(sorted((*self.passages, *self.unused), key=lambda each: -each.score))
