"""PDFs written by hand, so that every byte is known: pages of lines, bookmarks, pictures."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
PIXEL = (
    b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray"
    b" /BitsPerComponent 8 /Length 1 >>\nstream\n\x80\nendstream"
)
PICTURE = b"q 600 0 0 800 0 0 cm /Im Do Q\n"
"""Covers the whole page."""


@dataclass(frozen=True, slots=True)
class PdfPage:
    """Lines from the top; `extra` is drawn before them."""

    lines: Sequence[str] = ()
    extra: bytes = b""
    rotate: int = 0
    setup: bytes = b""
    """Operators in front of the lines: a colour, a mode."""
    size: float = 12


def content(page: PdfPage) -> bytes:
    rows = b"".join(b"(%s) Tj T*\n" % escaped(line) for line in page.lines)
    start = b"BT %s /F %g Tf %g TL 50 780 Td\n" % (page.setup, page.size, page.size * 1.5)
    return page.extra + start + rows + b"ET"


def escaped(line: str) -> bytes:
    return line.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def stream(data: bytes, head: bytes = b"") -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (head, len(data), data)


def pdf_bytes(
    pages: Sequence[PdfPage | Sequence[str]],
    *,
    title: str = "",
    bookmarks: Sequence[tuple[str, int]] = (),
    font: bytes = FONT,
    trailer: bytes = b"",
    catalog: bytes = b"",
    more: Sequence[bytes] = (),
) -> bytes:
    """`bookmarks`: titles with their page from 1. `more`: objects at the end."""
    made = [page if isinstance(page, PdfPage) else PdfPage(page) for page in pages]
    first = 5
    numbers = [first + 2 * index for index in range(len(made))]
    outline = first + 2 * len(made)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /Outlines %d 0 R %s >>" % (outline, catalog),
        b"<< /Type /Pages /Count %d /Kids [%s] >>"
        % (len(made), b" ".join(b"%d 0 R" % number for number in numbers)),
        font,
        PIXEL,
    ]
    for number, page in zip(numbers, made, strict=True):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Rotate %d /Contents %d 0 R"
            b" /Resources << /Font << /F 3 0 R >> /XObject << /Im 4 0 R >> >> >>"
            % (page.rotate, number + 1)
        )
        objects.append(stream(zlib.compress(content(page)), b"/Filter /FlateDecode"))
    objects += outlines(outline, bookmarks, numbers)
    objects.append(b"<< /Title (%s) >>" % escaped(title))
    info = len(objects)
    return file_of([*objects, *more], b"/Info %d 0 R %s" % (info, trailer))


def outlines(
    number: int, bookmarks: Sequence[tuple[str, int]], pages: Sequence[int]
) -> list[bytes]:
    count = len(bookmarks)
    ends = b"/First %d 0 R /Last %d 0 R" % (number + 1, number + count) if count else b""
    objects = [b"<< /Type /Outlines /Count %d %s >>" % (count, ends)]
    for index, (title, page) in enumerate(bookmarks, 1):
        after = b"/Next %d 0 R" % (number + index + 1) if index < count else b""
        objects.append(
            b"<< /Title (%s) /Parent %d 0 R /Dest [%d 0 R /Fit] %s >>"
            % (escaped(title), number, pages[page - 1], after)
        )
    return objects


def file_of(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    data = bytearray(b"%PDF-1.7\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, trailer)
    return bytes(data + b"startxref\n%d\n%%%%EOF\n" % table)


def write_pdf(path: Path, pages: Sequence[PdfPage | Sequence[str]], **how: object) -> Path:
    path.write_bytes(pdf_bytes(pages, **how))  # type: ignore[arg-type]  # passed on as they come
    return path
