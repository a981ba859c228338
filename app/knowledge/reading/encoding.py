"""Bytes of a text file as text: UTF-8 and UTF-16 by marks and form, older encodings by guess.

Binary files are refused, whatever their name says.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

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
TEXT_CONTROLS = frozenset(b"\t\n\r\x0b\x0c\x08\x1b")
SAMPLE_BYTES = 65_536
MOST_CONTROLS = 0.01
"""Share of control bytes above which a file is no text."""
MOST_BROKEN = 0.002
"""Share of broken sequences up to which a file is still UTF-8."""
GUESSED_BYTES = 262_144
"""What the guess looks at: enough of any language, and a bounded time."""
WIDER = {
    **dict.fromkeys(("gb2312", "gbk", "hz"), "gb18030"),
    **dict.fromkeys(("latin_1", "iso8859-1", "ascii"), "cp1252"),
    **dict.fromkeys(("big5", "cp950"), "big5hkscs"),
    **dict.fromkeys(("shift_jis", "shift_jis_2004"), "cp932"),
    **dict.fromkeys(("euc_kr", "johab"), "cp949"),
}
"""The wider set of the same family: a later page may use more of it."""


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
            return _decoded(data[len(mark) :], name, is_cut)
    if wide := _unmarked_wide(data[:SAMPLE_BYTES]):
        return _decoded(data, wide, is_cut)
    if is_binary(data):
        raise Refused("skipped: binary file")
    try:
        return Decoded(_strictly(data, "utf-8", is_cut))
    except UnicodeDecodeError:
        pass
    try:
        return Decoded(joined_halves(_strictly(data, "utf-8", is_cut, "surrogatepass")))
    except UnicodeDecodeError:
        text = _strictly(data, "utf-8", is_cut, "replace")
    broken = text.count("\ufffd") - data.count("\ufffd".encode())
    if broken <= max(3, MOST_BROKEN * len(data)) and _wide(text) > broken:
        return Decoded(text, f"{broken} broken characters")
    name = _known(declared) or guess(data)
    return _decoded(data, name, is_cut, f"read as {name}")


def is_binary(data: bytes) -> bool:
    if data.startswith(BINARY_STARTS):
        return True
    sample = data[:SAMPLE_BYTES]
    return _controls(sample) > max(8, MOST_CONTROLS * len(sample))


def guess(data: bytes) -> str:
    """The name of an older encoding. Raises Refused when none fits."""
    from charset_normalizer import from_bytes

    sample = data[:GUESSED_BYTES]
    if len(data) > len(sample):  # not inside a character of two bytes
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    best = from_bytes(sample).best()
    if best is None:
        raise Refused("skipped: encoding")
    return WIDER.get(best.encoding, best.encoding)


def _known(declared: str) -> str:
    """Python's name of an encoding that bytes are text in; empty for all else."""
    try:
        b"".decode(declared or "utf-8")
        name = codecs.lookup(declared or "utf-8").name
    except LookupError:
        return ""
    return "" if name.startswith("utf") else WIDER.get(name, name)


def _decoded(data: bytes, name: str, is_cut: bool, notice: str = "") -> Decoded:
    try:
        return Decoded(_strictly(data, name, is_cut), notice)
    except UnicodeDecodeError:
        text = _strictly(data, name, is_cut, "replace")
    broken = text.count("\ufffd")
    if broken > max(1, 10 * MOST_BROKEN * len(text)):
        raise Refused("skipped: encoding")
    return Decoded(text, "; ".join(filter(None, (notice, f"{broken} broken characters"))))


def _strictly(data: bytes, name: str, is_cut: bool, errors: str = "strict") -> str:
    return codecs.getincrementaldecoder(name)(errors).decode(data, final=not is_cut)


def _wide(text: str) -> int:
    """Characters beyond ASCII that were read."""
    return sum(1 for character in text if character > "\x7f" and character != "\ufffd")


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
