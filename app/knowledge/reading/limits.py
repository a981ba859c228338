"""How much of one file is read: beyond these the rest is left out, and the document says so."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Defaults hold a book of 3,000 pages; a file above them costs bounded time and memory."""

    characters: int = 10_000_000
    """Of a document's text; the rest is left out, with a notice."""
    sections: int = 50_000
    """Of a document; what comes after them stands in the last one, or is left out."""
    pages: int = 5_000
    """Of a PDF."""
    file_bytes: int = 1_000 * MEGABYTE
    """Of a format that cannot be read in part: PDF, DOCX, EPUB."""
    parsed_bytes: int = 50 * MEGABYTE
    """Of HTML, notebooks and parts of archives, which are parsed as a whole."""
    unpacked_bytes: int = 200 * MEGABYTE
    """Of all parts of one archive together."""
    parts: int = 10_000
    """Names in one archive."""
