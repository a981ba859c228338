"""Text of a PDF's page that no eye sees, taken out before the page's text is read.

Text counts as hidden when it lies outside of the page, or when it is white, transparent, drawn in
the invisible mode or smaller than a point, and nothing that is not white lies behind it. Text over
a picture stays: it may be the recognised text of a scan, or white letters on a dark ground.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import pypdfium2.raw as pdfium

MOST_OBJECTS = 20_000
"""Of one page that are looked at; drawings have more, and hide nobody's text."""
WHITE = 250
"""Each of red, green and blue from here on."""
SMALLEST_POINTS = 1.0
INVISIBLE_MODE = 3
"""The PDF's number for text that is neither filled nor stroked."""

Box = tuple[float, float, float, float]
"""Left, bottom, right, top in points."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands on the page."""

    shows_something: bool
    hidden: int
    """Characters taken out."""


def remove_hidden_text(page: Any) -> Seen:
    """Changes the opened page only, never the file."""
    count = pdfium.FPDFPage_CountObjects(page)
    objects = [pdfium.FPDFPage_GetObject(page, index) for index in range(min(count, MOST_OBJECTS))]
    paper: Box = page.get_bbox()
    gone = []
    grounds: list[Box] | None = None
    for one in filter(_is_text, objects):
        box = _box(one)
        if _is_empty(box) or _overlap(box, paper):
            if not _is_faint(one, box):
                continue
            if grounds is None:  # most pages need none
                grounds = [_box(other) for other in objects if _is_ground(other)]
            if any(_overlap(box, ground) for ground in grounds):
                continue
        gone.append(one)
    return Seen(count > len(gone), _remove(page, gone))


def _remove(page: Any, objects: list[Any]) -> int:
    """How many characters they had."""
    if not objects:
        return 0
    textpage = page.get_textpage()
    hidden = sum(len(_text(one, textpage).strip()) for one in objects)
    textpage.close()
    for one in objects:
        if pdfium.FPDFPage_RemoveObject(page, one):
            pdfium.FPDFPageObj_Destroy(one)
    return hidden


def _is_text(one: Any) -> bool:
    return bool(pdfium.FPDFPageObj_GetType(one) == pdfium.FPDF_PAGEOBJ_TEXT)


def _is_faint(one: Any, box: Box) -> bool:
    if pdfium.FPDFTextObj_GetTextRenderMode(one) == INVISIBLE_MODE or _is_white(one):
        return True
    return 0 < box[3] - box[1] < SMALLEST_POINTS / 2 and box[2] > box[0]


def _is_white(one: Any) -> bool:
    """White or wholly transparent filling."""
    parts = [ctypes.c_uint() for _ in range(4)]
    if not pdfium.FPDFPageObj_GetFillColor(one, *parts):
        return False
    red, green, blue, alpha = (part.value for part in parts)
    return alpha == 0 or min(red, green, blue) >= WHITE


def _is_ground(one: Any) -> bool:
    """Whether white letters on it could be seen: a picture, a shade, or a coloured area."""
    if _is_text(one):
        return False
    if pdfium.FPDFPageObj_GetType(one) != pdfium.FPDF_PAGEOBJ_PATH:
        return True
    return not _is_white(one)


def _box(one: Any) -> Box:
    sides = [ctypes.c_float() for _ in range(4)]
    pdfium.FPDFPageObj_GetBounds(one, *sides)
    left, bottom, right, top = (side.value for side in sides)
    return left, bottom, right, top


def _is_empty(box: Box) -> bool:
    """Spaces, and letters whose font does not tell their size."""
    return box[0] >= box[2] or box[1] >= box[3]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _text(one: Any, textpage: Any) -> str:
    size = pdfium.FPDFTextObj_GetText(one, textpage, None, 0)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    pdfium.FPDFTextObj_GetText(one, textpage, buffer, size)
    return bytes(buffer)[:size].decode("utf-16-le", "ignore").rstrip("\0")
