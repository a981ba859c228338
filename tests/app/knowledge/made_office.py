"""DOCX and EPUB files written by hand."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STYLES = "".join(
    f'<w:style w:type="paragraph" w:styleId="H{level}"><w:name w:val="heading {level}"/></w:style>'
    for level in range(1, 4)
)


def write_zip(path: Path, parts: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def paragraph(text: str, style: str = "", settings: str = "") -> str:
    """`settings`: of the run."""
    styled = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    run = f"<w:rPr>{settings}</w:rPr>" if settings else ""
    return f'<w:p>{styled}<w:r>{run}<w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def table(rows: Sequence[Sequence[str]]) -> str:
    cells = ("".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"


def write_docx(path: Path, body: str, head: str = "", **more: str | bytes) -> Path:
    """`body`: made of `paragraph` and `table`; `head`: in front of the XML's root."""
    document = (
        f'<?xml version="1.0" encoding="UTF-8"?>{head}'
        f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    )
    styles = f'<w:styles xmlns:w="{WORD}">{STYLES}</w:styles>'
    return write_zip(path, {"word/document.xml": document, "word/styles.xml": styles, **more})


def write_epub(
    path: Path, chapters: Sequence[str], title: str = "", more: Mapping[str, str] | None = None
) -> Path:
    """`chapters`: HTML of the bodies."""
    items = "".join(
        f'<item id="c{n}" href="text/c%20{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{escape(title)}'
        f"</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    pages = {
        f"OEBPS/text/c {n}.xhtml": (
            '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml">'
            f"<head><title>c</title></head><body>{body}</body></html>"
        )
        for n, body in enumerate(chapters)
    }
    parts = {"META-INF/container.xml": container, "OEBPS/book.opf": package, **pages}
    return write_zip(path, {**parts, **(more or {})})
