"""Word's files: paragraphs and tables in order under their headings, notes at the end.

Deleted text of tracked changes is left out; hidden and white text too, counted.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from app.knowledge.document import Document
from app.knowledge.reading.archive import Archive
from app.knowledge.reading.builder import DocumentBuilder
from app.knowledge.reading.formats.docx_text import TextOf
from app.knowledge.reading.source import Source
from app.knowledge.reading.xml_parts import elements

BODY = "word/document.xml"
NOTES = ("word/footnotes.xml", "word/endnotes.xml")
BLOCK_DEPTH = 3
"""document, body, block."""
NOTE_DEPTH = 2
DEEPEST_STYLE = 20
"""How many styles a style may rest on."""
TITLE_LEVEL = 0


def read_docx(source: Source) -> Document:
    archive = Archive(source)
    builder = DocumentBuilder("docx", source.limits)
    body = _Body(builder, _heading_levels(archive))
    with archive.part(BODY) as file:
        for block in elements(file, BLOCK_DEPTH):
            body.add(block)
            if builder.is_full:
                break
    for name in NOTES:
        if name in archive and not builder.is_full:
            with archive.part(name) as file:
                for note in elements(file, NOTE_DEPTH):
                    body.add_note(note)
    builder.hidden += body.text_of.hidden
    return builder.document(_title(archive) or body.title)


class _Body:
    def __init__(self, builder: DocumentBuilder, levels: dict[str, int]) -> None:
        self.text_of = TextOf()
        self.title = ""
        self._builder = builder
        self._levels = levels

    def add(self, block: Element) -> None:
        if block.tag == "p":
            self._add_paragraph(block)
        elif block.tag == "tbl":
            rows = [_cells(row, self.text_of) for row in block.iter("tr")]
            self._builder.table(rows, has_header=len(rows) > 1 and max(map(len, rows)) > 1)
        else:  # a wrapper: a content control, a table of contents, a tracked change
            for inner in block:
                if inner.tag not in ("sdtPr", "sdtEndPr", "sectPr"):
                    self.add(inner)

    def add_note(self, note: Element) -> None:
        self._builder.text(" ".join(self.text_of(part) for part in note.iter("p")))

    def _add_paragraph(self, paragraph: Element) -> None:
        text = self.text_of(paragraph)
        level = self._level(paragraph)
        if level is None or not text.strip():
            self._builder.text(text)
            return
        if level == TITLE_LEVEL:
            self.title = self.title or text
        self._builder.heading(level, text)

    def _level(self, paragraph: Element) -> int | None:
        """0 for the title, from 1 for headings."""
        if outline := _value(paragraph, "pPr/outlineLvl"):
            return _outline_level(outline)
        return self._levels.get(_value(paragraph, "pPr/pStyle"))


def _cells(row: Element, text_of: TextOf) -> list[str]:
    return [" ".join(text_of(part) for part in cell.iter("p")) for cell in row.findall("tc")]


def _heading_levels(archive: Archive) -> dict[str, int]:
    """Level by a style's id: of its own, or of the style that it rests on."""
    if "word/styles.xml" not in archive:
        return {f"Heading{level}": level for level in range(1, 10)}
    own: dict[str, int] = {}
    parents: dict[str, str] = {}
    with archive.part("word/styles.xml") as file:
        for style in elements(file, 2):
            name = style.get("styleId", "")
            parents[name] = _value(style, "basedOn")
            if (level := _style_level(style)) is not None:
                own[name] = level
    found = ((name, _inherited(name, own, parents)) for name in parents)
    return {name: level for name, level in found if level is not None}


def _style_level(style: Element) -> int | None:
    if outline := _value(style, "pPr/outlineLvl"):
        return _outline_level(outline)
    name = _value(style, "name").lower()
    if name == "title":
        return TITLE_LEVEL
    number = name.removeprefix("heading ")
    return int(number) if name.startswith("heading ") and number in set("123456789") else None


def _inherited(name: str, own: dict[str, int], parents: dict[str, str]) -> int | None:
    for _ in range(DEEPEST_STYLE):
        if name in own:
            return own[name]
        name = parents.get(name, "")
    return None


def _outline_level(text: str) -> int | None:
    """Word counts from 0; 9 is body text."""
    return int(text) + 1 if text in set("012345678") else None


def _value(element: Element, path: str) -> str:
    found = element.find(path)
    return found.get("val", "") if found is not None else ""


def _title(archive: Archive) -> str:
    if "docProps/core.xml" not in archive:
        return ""
    with archive.part("docProps/core.xml") as file:
        for part in elements(file, 2):
            if part.tag == "title":
                return part.text or ""
    return ""
