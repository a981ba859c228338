"""The text of one of Word's paragraphs, as it shows with all changes accepted."""

from __future__ import annotations

from xml.etree.ElementTree import Element

SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "softHyphen": ""}
NOT_SHOWN = frozenset(("del", "moveFrom", "Fallback", "pPr", "rPr", "instrText", "delText"))
"""Deleted text, second versions of drawings, settings."""


class TextOf:
    """Counts what it leaves out."""

    def __init__(self) -> None:
        self.hidden = 0

    def __call__(self, paragraph: Element) -> str:
        return "".join(self._pieces(paragraph))

    def _pieces(self, element: Element) -> list[str]:
        pieces: list[str] = []
        for part in element:
            if part.tag in NOT_SHOWN:
                continue
            if part.tag == "t":
                pieces.append(part.text or "")
            elif part.tag in SIGNS:
                pieces.append(SIGNS[part.tag])
            elif part.tag == "r" and is_hidden(part):
                self.hidden += sum(len(text.text or "") for text in part.iter("t"))
            else:
                pieces += self._pieces(part)
                if part.tag == "p":  # of a text box inside the paragraph
                    pieces.append("\n")
        return pieces


def is_hidden(run: Element) -> bool:
    """Marked as hidden, white without a ground, or smaller than a point."""
    settings = run.find("rPr")
    if settings is None:
        return False
    if _is_on(settings.find("vanish")) or _is_on(settings.find("webHidden")):
        return True
    size = settings.find("sz")  # in half points
    if size is not None and size.get("val") in ("0", "1", "2"):
        return True
    colour = settings.find("color")
    white = colour is not None and colour.get("val", "").upper() == "FFFFFF"
    return white and settings.find("shd") is None and settings.find("highlight") is None


def _is_on(setting: Element | None) -> bool:
    return setting is not None and setting.get("val", "true") not in ("0", "false", "off")
