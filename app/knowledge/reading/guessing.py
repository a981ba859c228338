"""Which older encoding a text is written in: by its letters, among those that files have."""

from __future__ import annotations

import codecs
import re

GUESSED_BYTES = 262_144
"""What the guess looks at: enough of any language, and a bounded time."""
OF_TWO_BYTES = (
    *("gb18030", "big5", "big5hkscs", "shift_jis", "cp932", "euc_jp", "iso2022_jp", "euc_kr"),
    "cp949",
)
OF_ONE_BYTE = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("koi8_r", "iso8859_2", "iso8859_15", "cp866", "cp874", "cp850", "mac_roman"),
)
"""Both with the commonest first. In a short text any other encoding may fit by chance."""
HIGH_RUNS = re.compile(rb"[\x80-\xff]+")
SINGLE_RUN = 1.5
"""Mean length of runs of bytes beyond ASCII up to which they are single letters."""
EQUALLY_WELL = 0.06
"""Difference of two languages' likeness that says nothing in a short text."""
WIDER = {
    **dict.fromkeys(("gb2312", "gbk", "hz"), "gb18030"),
    **dict.fromkeys(("latin_1", "iso8859-1", "ascii"), "cp1252"),
    **dict.fromkeys(("big5", "cp950"), "big5hkscs"),
    **dict.fromkeys(("shift_jis", "shift_jis_2004"), "cp932"),
    **dict.fromkeys(("euc_kr", "johab"), "cp949"),
}
"""The wider set of the same family: a later page may use more of it."""


def guess(data: bytes) -> str:
    """The name of an older encoding; empty when none fits."""
    from charset_normalizer import from_bytes

    sample = data[:GUESSED_BYTES]
    if len(data) > len(sample):  # not inside a character of two bytes
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    matches = from_bytes(sample, cp_isolation=_candidates(sample))
    best = matches.best()
    if best is None:
        return ""
    good = [
        match.encoding
        for match in matches
        if match.chaos <= best.chaos and match.coherence >= best.coherence - EQUALLY_WELL
    ]
    found = min(good, key=[*OF_TWO_BYTES, *OF_ONE_BYTE].index)
    return WIDER.get(found, found)


def _candidates(sample: bytes) -> list[str]:
    """A degree sign among English words is no Chinese letter: those stand side by side."""
    runs = [len(run) for run in HIGH_RUNS.findall(sample)]
    if runs and sum(runs) <= SINGLE_RUN * len(runs):
        return list(OF_ONE_BYTE)
    return [*OF_TWO_BYTES, *OF_ONE_BYTE]


def known_name(declared: str) -> str:
    """Python's name of an encoding that bytes are text in; empty for all else."""
    try:
        b"".decode(declared or "utf-8")
        name = codecs.lookup(declared or "utf-8").name
    except LookupError:
        return ""
    return "" if name.startswith("utf") else WIDER.get(name, name)
