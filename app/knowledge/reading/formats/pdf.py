"""PDFs, page by page: a section a page, under the bookmark that it lies behind.

A page of pictures without text is named in a notice; text that no eye sees (white, transparent or
tiny, with nothing behind it) is left out and counted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pypdfium2

from app.knowledge.document import Document
from app.knowledge.reading.builder import DocumentBuilder
from app.knowledge.reading.cleaning import cleaned
from app.knowledge.reading.formats.pdf_hidden import remove_hidden_text
from app.knowledge.reading.headings import Headings
from app.knowledge.reading.source import Refused, Source

NO_TEXT = "no text (needs OCR)"
MOST_BOOKMARKS = 10_000
LEAST_READABLE = 0.9
"""Share of a page's characters that must be letters, signs or spaces: a font without a table of its
letters gives garbage."""
DOUBTFUL = re.compile(r"[^\t\n\r -~]")
"""Beyond ASCII's letters and signs, which need no look."""
PASSWORD_ERRORS = frozenset((4, 5))
"""pdfium: a password is needed; a protection that it does not know."""
BROKEN_WORD = re.compile(r"(?<=\w)(?:\ufffe|-(?=\r?\n))[\r\n]*(?=[^\W\d_])")
"""A word parted at the end of a line: pdfium writes its own mark for the hyphen."""
LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
)


def read_pdf(source: Source) -> Document:
    if source.size > source.limits.file_bytes:
        raise Refused("too large")
    pdf = _opened(source)
    try:
        builder = DocumentBuilder("pdf", source.limits)
        without_text = _add_pages(builder, pdf, source)
        builder.notices += _notices(pdf, source, without_text)
        title = _title(pdf)
        return builder.document(title, NO_TEXT if without_text else "skipped: empty")
    finally:
        pdf.close()


def _opened(source: Source) -> Any:
    try:
        return pypdfium2.PdfDocument(source.file)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in PASSWORD_ERRORS:
            raise Refused("encrypted") from error
        raise Refused("skipped: damaged") from error


def _add_pages(builder: DocumentBuilder, pdf: Any, source: Source) -> list[int]:
    """Gives the pages that show something but hold no readable text."""
    without_text: list[int] = []
    total = min(len(pdf), source.limits.pages)
    bookmarks = _Bookmarks(pdf)
    for number in range(1, total + 1):
        if builder.is_full:
            break
        source.progress(number - 1, total)
        page = _page(pdf, number)
        if not page.text and page.shows_something:
            without_text.append(number)
        builder.hidden += page.hidden
        builder.text(page.text, page=number, under=bookmarks.path(number))
    return without_text


@dataclass(frozen=True, slots=True)
class _Page:
    text: str
    shows_something: bool
    hidden: int


def _page(pdf: Any, number: int) -> _Page:
    """A page that cannot be read is one without text."""
    try:
        page = pdf[number - 1]
    except pypdfium2.PdfiumError:
        return _Page("", True, 0)
    try:
        page.set_rotation(0)  # pdfium gives the lines of some turned pages from the bottom
        seen = remove_hidden_text(page)
        textpage = page.get_textpage()
        raw = textpage.get_text_range(errors="ignore")
        textpage.close()
    except pypdfium2.PdfiumError:
        return _Page("", True, 0)
    finally:
        page.close()
    return _Page(page_text(raw), seen.shows_something, seen.hidden)


def page_text(raw: str) -> str:
    """pdfium's text of a page without its own marks; empty when too little of it is readable."""
    if raw and readable_share(raw) < LEAST_READABLE:
        return ""
    return BROKEN_WORD.sub("", raw).replace("\ufffe", "-").translate(LIGATURES)


def readable_share(text: str) -> float:
    """Of the characters that are no white space."""
    shown = len("".join(text.split()))
    bad = sum(1 for character in DOUBTFUL.findall(text) if not _is_readable(character))
    return 1 - bad / shown if shown else 1.0


def _is_readable(character: str) -> bool:
    if character in "\ufffe\xad" or character.isspace():
        return True
    return character != "\ufffd" and unicodedata.category(character) not in ("Cc", "Co", "Cn", "Cs")


class _Bookmarks:
    """The document's outline: which path a page lies behind."""

    def __init__(self, pdf: Any) -> None:
        self._starts = sorted(_starts(pdf), key=lambda start: start[0])
        self._next = 0
        self._path: tuple[str, ...] = ()

    def path(self, page: int) -> tuple[str, ...]:
        """Of the last bookmark before the page, or the first on it. Ask in order of pages."""
        here: tuple[str, ...] | None = None
        while self._next < len(self._starts) and self._starts[self._next][0] <= page:
            start, path = self._starts[self._next]
            if start == page and here is None:
                here = path
            self._path = path
            self._next += 1
        return self._path if here is None else here


def _starts(pdf: Any) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Page (from 1) and path of each bookmark that leads to a page."""
    headings = Headings()
    try:
        for bookmark in islice(pdf.get_toc(), MOST_BOOKMARKS):
            path = headings.enter(bookmark.level, cleaned(bookmark.get_title()).text)
            destination = bookmark.get_dest()
            index = destination.get_index() if destination is not None else None
            if index is not None:
                yield index + 1, path
    except Exception:  # an outline is an extra: a damaged one costs only itself
        return


def _title(pdf: Any) -> str:
    title = pdf.get_metadata_value("Title")
    return title if isinstance(title, str) else ""


def _notices(pdf: Any, source: Source, without_text: Sequence[int]) -> Iterator[str]:
    if without_text:
        word = "page" if len(without_text) == 1 else "pages"
        yield f"{word} {ranges(without_text)}: {NO_TEXT}"
    if len(pdf) > source.limits.pages:
        yield f"only the first {source.limits.pages:,} of {len(pdf):,} pages were read"
    if count := pdf.count_attachments():
        yield f"{count} attached files were not read"


def ranges(numbers: Sequence[int]) -> str:
    """`3, 7-9` of numbers in order."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    shown = [f"{first}-{last}" if last > first else str(first) for first, last in runs[:20]]
    return ", ".join(shown) + (", …" if len(runs) > 20 else "")
