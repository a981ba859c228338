"""What a question was answered from, and what its answer cites. Values; kept with the messages."""

from __future__ import annotations

from dataclasses import dataclass

from app.knowledge.given import Given
from app.knowledge.passage import Passage


@dataclass(frozen=True, slots=True)
class Sources:
    """The documents that stand beside one question, from the moment that it was asked."""

    base: str
    """Name of the knowledge base; empty: text that was attached or pasted."""
    mark: str = ""
    """Random; it fences the passages in the prompt, and stands in none of them."""
    passages: tuple[Passage, ...] = ()
    """What the model reads. Passage n is cited as `[n]`, from 1."""
    unused: tuple[Passage, ...] = ()
    """Found but not given to the model, best first."""
    is_refused: bool = False
    """The documents say nothing about the question: no answer was made."""
    reason: str = ""
    """Why it was refused, or what limited the search."""
    collection: str = ""
    """Hash of a small collection that was given whole; empty: a search chose the passages."""
    notices: tuple[str, ...] = ()
    """What a person should know of how the documents were used."""
    given: Given | None = None
    """Texts that stand whole in the question itself."""
    is_with_text: bool = False
    """The question came with text that is searched for it."""

    @property
    def is_found(self) -> bool:
        """Whether the question is answered from documents."""
        return bool(self.passages) or self.is_whole

    @property
    def says_something(self) -> bool:
        """Whether there is anything to tell of it before the answer."""
        return self.is_found or self.is_refused or bool(self.notices)

    @property
    def is_whole(self) -> bool:
        """Whether the model has all of the documents before it."""
        return bool(self.collection)


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that an answer is from: named by a `[n]` that was checked, or found."""

    number: int
    place: str
    """`handbook.pdf p. 12`, `notes.md:40-58`: safe to show."""
    path: str
    """The file, as `os.fsdecode` makes it of its name."""
    page: int | None
    first_line: int | None
    last_line: int | None
    start: int
    """Characters of the document's text."""
    end: int
    supported: bool
    """Every sentence that cites it shares its rare words and its numbers with the passage."""
    named: bool = True
    """False: the answer names no source at all; comparing its sentences with the passages found
    this one.
    """
    last_page: int | None = None
