"""Bytes of a text file as text: UTF-8 and UTF-16 by marks and form, older encodings by guess.

Binary files are refused, whatever their name says.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from app.knowledge.reading.guessing import guess, known_name
from app.knowledge.reading.source import Refused

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
BINARY_STARTS = (
    *(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"PK\x03\x04", b"%PDF-", b"\x7fELF", b"MZ\x90"),
    *(b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"SQLite format 3\0", b"\xd0\xcf\x11\xe0"),
    *(b"GGUF", b"OggS", b"fLaC", b"ID3", b"RIFF", b"\0\0\x01\0", b"\xca\xfe\xba\xbe"),
)
JAPANESE_MAIL = re.compile(rb"\x1b\$[@B]")
"""The mark in front of Japanese letters in ISO-2022-JP, whose bytes are all ASCII."""
TEXT_CONTROLS = frozenset(b"\t\n\r\x0b\x0c\x08\x1b")
SAMPLE_BYTES = 65_536
MOST_CONTROLS = 0.01
"""Share of control bytes above which a file is no text."""
MOST_BROKEN = 0.002
"""Share of broken sequences up to which a file is still UTF-8."""
MOST_LOST = 0.02
"""The same where no older encoding fits, and of those."""


@dataclass(frozen=True, slots=True)
class Decoded:
    text: str
    notice: str = ""
    """What was guessed or lost."""


def decode(data: bytes, is_cut: bool = False, declared: str = "") -> Decoded:
    """`is_cut`: the data may end inside a character. `declared`: the encoding that the text names,
    believed where it is no UTF-8. Raises Refused.
    """
    for mark, name in MARKS:
        if data.startswith(mark):
            return _lenient(data[len(mark) :], name, is_cut)
    if wide := _unmarked_wide(data[:SAMPLE_BYTES]):
        return _lenient(data, wide, is_cut)
    if is_binary(data):
        raise Refused("skipped: binary file")
    try:
        if data.isascii() and JAPANESE_MAIL.search(data):
            return Decoded(_decode(data, "iso2022_jp", is_cut, "strict"), "read as iso2022_jp")
        return Decoded(_decode(data, "utf-8", is_cut, "strict"))
    except UnicodeDecodeError:
        pass
    try:
        return Decoded(joined_halves(_decode(data, "utf-8", is_cut, "surrogatepass")))
    except UnicodeDecodeError:
        return _nearly_utf8(data, is_cut) or _older(data, is_cut, declared)


def _nearly_utf8(data: bytes, is_cut: bool, most_broken: float = MOST_BROKEN) -> Decoded | None:
    """Text of which a few bytes are broken; None for other text."""
    text = _decode(data, "utf-8", is_cut, "replace")
    broken = text.count("\ufffd") - data.count("\ufffd".encode())
    if broken > max(3, most_broken * len(data)):
        return None
    if most_broken < MOST_LOST and sum(one > "\x7f" for one in text) <= 2 * broken:
        return None  # letters of another encoding among ASCII
    return Decoded(text, f"{broken} broken characters")


def _older(data: bytes, is_cut: bool, declared: str) -> Decoded:
    """Raises Refused when no encoding fits."""
    if name := known_name(declared) or guess(data):
        return _lenient(data, name, is_cut, f"read as {name}")
    if text := _nearly_utf8(data, is_cut, MOST_LOST):
        return text
    raise Refused("skipped: encoding")


def is_binary(data: bytes) -> bool:
    if data.startswith(BINARY_STARTS):
        return True
    sample = data[:SAMPLE_BYTES]
    return _controls(sample) > max(8, MOST_CONTROLS * len(sample))


def _lenient(data: bytes, name: str, is_cut: bool, notice: str = "") -> Decoded:
    """Raises Refused when too much of it is broken."""
    text = _decode(data, name, is_cut, "replace")
    if not (broken := text.count("\ufffd")):
        return Decoded(text, notice)
    if broken > max(1, MOST_LOST * len(text)):
        raise Refused("skipped: encoding")
    return Decoded(text, "; ".join(filter(None, (notice, f"{broken} broken characters"))))


def _decode(data: bytes, name: str, is_cut: bool, errors: str) -> str:
    return codecs.getincrementaldecoder(name)(errors).decode(data, final=not is_cut)


def joined_halves(text: str) -> str:
    """Two halves of a pair as the character that they are; single halves as U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unmarked_wide(sample: bytes) -> str | None:
    """UTF-16 without its mark: NULs stand at every second byte only, letters at the others."""
    if len(sample) < 4:
        return None
    for name, high, low in (
        ("utf-16-le", sample[1::2], sample[0::2]),
        ("utf-16-be", sample[0::2], sample[1::2]),
    ):
        is_wide = high.count(0) > 0.4 * len(high) and low.count(0) < 0.02 * len(low)
        if is_wide and _controls(low) <= MOST_CONTROLS * len(low):
            return name
    return None


def _controls(data: bytes) -> int:
    return sum(data.count(code) for code in range(32) if code not in TEXT_CONTROLS)
