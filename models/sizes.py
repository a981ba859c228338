"""Byte counts and file names as people read them."""

from __future__ import annotations

import os
from pathlib import Path

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def show_bytes(count: int) -> str:
    """812 MB, 1.1 GB: decimal units, two digits below ten."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 1 if unit and value < 9.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def show_sizes(smaller: int, larger: int) -> tuple[str, str]:
    """Two byte counts that differ; exact where the rounded ones would look alike."""
    short = show_bytes(smaller), show_bytes(larger)
    if short[0] == short[1] and smaller != larger:
        return f"{smaller:,} bytes", f"{larger:,} bytes"
    return short


def show_name(path: Path | str) -> str:
    """The file's name with undecodable bytes and control characters escaped."""
    return show_text(os.path.basename(os.fspath(path)) or os.fspath(path))


def show_text(text: str) -> str:
    """Text in which nothing unprintable is left: such characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
