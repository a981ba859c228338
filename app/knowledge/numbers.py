"""The numbers of a text as values that can be compared: `1,200`, `1.200`, `1 200` and `一千二百`
are one value, `05.03.2024` and `2024-03-05` the same three.

Knows digits and Chinese numerals, and number words of no other language. Texts are folded already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
UNITS = {"十": 10, "百": 100, "千": 1000}
MYRIADS = {"万": 10**4, "亿": 10**8}
CHINESE = "".join((*DIGITS, *UNITS, *MYRIADS))

MIXED = re.compile(f"(\\d+(?:\\.\\d+)?)([{''.join((*UNITS, *MYRIADS))}]+)")
SPELLED = re.compile(f"[{CHINESE}]{{2,}}|(?<=百分之)[{CHINESE}]|[{CHINESE}](?=[月日号])")
"""A single numeral is a number before a few words only: `一个` is no more than `a`."""

GROUP = "(?<![\\d.,])(?!0)\\d{{1,3}}([{separators}])\\d{{3}}(?:\\1\\d{{3}})*(?!\\d)"
MARKED = re.compile(GROUP.format(separators=".,'’"))
SPACED = re.compile(GROUP.format(separators=" "))
CELLS = re.compile(r"(?<=\S[,;])\d+(?:[,;]\d+)+|\d+(?:[,;]\d+)+(?=[,;]\S)")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def numbers(text: str) -> frozenset[str]:
    """What a text says: digits parted by blanks in threes are one number."""
    return frozenset(values(SPACED.sub(without_blanks, plain(text))))


def readings(text: str) -> frozenset[str]:
    """What a text may say: such digits are one number, or several beside each other; so are those
    between the commas of a table's row.
    """
    cells = frozenset(short(one) for row in CELLS.findall(text) for one in re.split("[,;]", row))
    return numbers(text) | frozenset(values(plain(text))) | cells


def plain(text: str) -> str:
    """In digits that nothing parts into groups but blanks."""
    text = MIXED.sub(lambda match: f" {multiplied(match[1], match[2])} ", text)
    text = SPELLED.sub(lambda match: in_digits(match[0]), text)
    return MARKED.sub(lambda match: re.sub(r"\D", "", match[0]), text)


def without_blanks(match: re.Match[str]) -> str:
    return match[0].replace(" ", "")


def values(text: str) -> Iterator[str]:
    for found in NUMBER.findall(text):
        parts = re.split("[.,]", found)
        if len(parts) == 2:
            decimals = parts[1].rstrip("0") and parts[1]
            yield short(parts[0]) + (f".{decimals}" if decimals else "")
        else:
            yield from map(short, parts)


def short(digits: str) -> str:
    return digits.lstrip("0") or "0"


# ---- Chinese numerals


def multiplied(digits: str, units: str) -> str:
    """`3.5` and `亿` as digits."""
    whole, _, decimals = digits.partition(".")
    value = int(whole + decimals)
    for unit in units:
        value *= UNITS.get(unit) or MYRIADS[unit]
    power = 10 ** len(decimals)
    return digits + units if value % power else str(value // power)


def in_digits(numeral: str) -> str:
    """The numeral itself where it is no number, as in `万一`."""
    if all(one in DIGITS for one in numeral):
        return f" {''.join(str(DIGITS[one]) for one in numeral)} "
    value = counted(numeral)
    return numeral if value is None else f" {value} "


def counted(numeral: str) -> int | None:
    """The value of a numeral with units; None where it is none: `七八十` is about as many."""
    total = section = 0
    digit: int | None = None
    unit = 1
    for place, one in enumerate(numeral):
        if one in DIGITS:
            if digit:
                return None
            digit, unit = DIGITS[one], unit if DIGITS[one] else 1
        elif one in UNITS:
            if digit is None and (one != "十" or (place and numeral[place - 1] not in "零〇万亿")):
                return None
            section += (1 if digit is None else digit) * UNITS[one]
            digit, unit = None, UNITS[one]
        else:
            section += digit or 0
            unit = MYRIADS[one]
            low = section if one == "万" else total + section
            if not low:
                return None
            total, section, digit = total - (low - section) + low * unit, 0, None
    # The unit after the last one is not said: `两万五` is 25,000.
    return total + section + (digit or 0) * max(unit // 10, 1)
