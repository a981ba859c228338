"""What a search finds: stretches of documents with their place, their score and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
