"""Plain tables and words for sizes and times, for listings on a console."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence

UNITS = ("bytes", "kB", "MB", "GB", "TB")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> str:
    """Columns two spaces apart; a column whose letter in `right` is `r` is set to the right."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(_line(line, widths, right) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: str) -> str:
    padded = (
        cell.rjust(width) if right[index : index + 1] == "r" else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def size(byte_count: float) -> str:
    """Decimal units, as disks and downloads are counted."""
    value = float(byte_count)
    for unit in UNITS[:-1]:
        if value < 1000:
            return (
                f"{value:.0f} {unit}" if unit == "bytes" or value >= 100 else f"{value:.1f} {unit}"
            )
        value /= 1000
    return f"{value:.1f} {UNITS[-1]}"


def moment(seconds: float) -> str:
    """Local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def tokens(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def pieces(count: int, noun: str) -> str:
    """1 file, 2,140 files"""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def fitting(text: str, columns: int) -> str:
    """The start of a line that fits; characters of east Asia take two columns."""
    used = 0
    for index, letter in enumerate(text):
        used += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if used > columns:
            return text[: max(index - 1, 0)] + "…"
    return text
