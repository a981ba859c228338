"""Text without what the eye does not see: NFC, no control, zero-width, tag or direction characters.

The number of lines never changes: CRLF and CR become `\\n`, and nothing else becomes or stops being
a line end. Invisible characters that ordinary writing needs (joiners inside emoji and Persian or
Indic words) stay.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from app.sanitize import FLAG_TAGS, SUSPECT, is_needed

COLOURS = re.compile("\x1b\\[[0-9;:]{0,40}m")
"""Of terminals, as logs hold them: nobody's hidden text."""
COMMANDS = re.compile(
    "\x1b\\[[0-?]{0,40}[ -/]{0,4}[@-~]|\x1b\\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\\\)"
)
SPACES = frozenset("\x0b\x0c\x85\u2028\u2029")
"""They part words, and some programs end a line at them; no editor counts lines by them."""
ASCII_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
"""The only suspects of most texts, found five times faster."""
UNCOUNTED = frozenset("\xad\ufeff")
"""A soft hyphen is ordinary in books; a byte-order mark is left where files were joined."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    text: str
    hidden: int
    """Invisible characters taken out."""


def cleaned(text: str) -> Cleaned:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and ASCII_CONTROLS.search(text) is None:
        return Cleaned(text, 0)
    hidden = 0
    if "\x1b" in text:
        text = COLOURS.sub("", text)
        hidden = sum(len(match) for match in COMMANDS.findall(text))
        text = COMMANDS.sub("", text)
    if SUSPECT.search(text) is not None:
        text, removed = _without_suspects(text)
        hidden += removed
    return Cleaned(unicodedata.normalize("NFC", text), hidden)


def _without_suspects(text: str) -> tuple[str, int]:
    pieces: list[str] = []
    last, position, hidden = "", 0, 0
    while match := SUSPECT.search(text, position):
        index = match.start()
        pieces.append(text[position:index])
        last = pieces[-1][-1:] or last
        kept, position = _kept(text, index, last)
        hidden += not kept and text[index] not in UNCOUNTED
        pieces.append(kept)
        last = kept[-1:] or last
    pieces.append(text[position:])
    return "".join(pieces), hidden


def _kept(text: str, index: int, before: str) -> tuple[str, int]:
    """What stays of the suspect at `index`, and where to go on."""
    character = text[index]
    if character in SPACES:
        return " ", index + 1
    if before == "\U0001f3f4" and (flag := FLAG_TAGS.match(text, index)):
        return flag.group(), flag.end()
    return character if is_needed(character, before, text[index + 1 : index + 2]) else "", index + 1
