"""What holds for every document, whatever its reader."""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path

from app.knowledge.document import Document, Section, Unreadable
from app.knowledge.reading.limits import Limits
from app.knowledge.reading.read import read
from app.sanitize import clean, single_line


def document_of(path: Path, limits: Limits | None = None) -> Document:
    """The file's document, checked."""
    found = read(path, limits=limits)
    assert isinstance(found, Document), found
    check(found)
    return found


def state_of(path: Path, limits: Limits | None = None) -> str:
    found = read(path, limits=limits)
    assert isinstance(found, Unreadable), found
    return found.state


def check(document: Document) -> None:
    text = document.text
    assert text == unicodedata.normalize("NFC", text)
    assert text == clean(text), "invisible characters were left"
    assert "\r" not in text
    assert document.title == single_line(document.title)
    assert len(document.title) <= 200
    end = 0
    for section in document.sections:
        assert end <= section.start < section.end <= len(text)
        assert not text[end : section.start].strip(), "text that is in no section"
        shown = text[section.start : section.end]
        assert shown == shown.strip()
        assert all(heading == single_line(heading) for heading in section.headings)
        assert all(0 < len(heading) <= 200 for heading in section.headings)
        if section.header:
            assert shown.startswith(section.header)
        end = section.end
    assert not text[end:].strip(), "text that is in no section"


def section_at(document: Document, words: str) -> Section:
    """Where these words stand; they stand there once."""
    place = document.text.index(words)
    assert document.text.find(words, place + 1) < 0
    (found,) = (one for one in document.sections if one.start <= place < one.end)
    return found


def line_of(document: Document, words: str) -> int:
    """From 1, counted as whoever cites it counts."""
    assert document.has_lines
    return document.text.count("\n", 0, document.text.index(words)) + 1


def lines_of_file(data: bytes, encoding: str) -> list[str]:
    """As Python's own text files split them."""
    text = data.decode(encoding, "surrogatepass")
    return io.StringIO(text, newline=None).read().split("\n")
