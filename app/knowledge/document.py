"""What a reader makes of one file: its text, and where each stretch of it stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a document's text that stands in one place."""

    start: int
    """First character of `Document.text`."""
    end: int
    """One after the last character."""
    headings: tuple[str, ...] = ()
    """The headings that it stands under, outermost first."""
    page: int | None = None
    """From 1, where the format has pages."""
    header: str = ""
    """A table's header row, to be repeated before each chunk of the table but the first: the
    section itself begins with it."""


@dataclass(frozen=True, slots=True)
class Document:
    """One file's text, NFC, without control and invisible characters."""

    kind: str
    """The format's name: `markdown`, `text`, `code`, `csv`, `json`, `html`, `pdf`, `docx`, `epub`,
    `notebook`.
    """
    text: str
    sections: tuple[Section, ...]
    """In order, without overlap; together they hold every character that is no white space."""
    title: str = ""
    has_lines: bool = False
    """Whether the text's lines are the file's lines."""
    hidden_characters: int = 0
    """Invisible characters that were taken out: a sign of text meant for a machine."""
    notices: tuple[str, ...] = ()
    """What a person should know, e.g. `page 3: no text (needs OCR)`."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a file has no document; `state` is its final state in the index."""

    state: str
    """`no text (needs OCR)`, `encrypted`, `too large`, or `skipped: ` with the reason."""
    is_lasting: bool = True
    """The same bytes will always give it; else the system refused them this time."""
