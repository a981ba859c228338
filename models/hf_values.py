"""A `config.json` read key by key; what is missing, unknown or wrong is refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from models.errors import UnsupportedModel

MOST = 2**31 - 1
"""Larger counts are damage."""


class HfValues:
    """The file's values over the defaults of its model type; a null in the file stays a null."""

    def __init__(self, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self._values = {**defaults, **values}

    def get(self, key: str) -> Any:
        """None where neither the file nor the defaults know the key."""
        return self._values.get(key)

    def count(self, key: str, least: int = 1, most: int = MOST) -> int:
        """A whole number in these limits."""
        return whole(key, self.get(key), least, most)

    def optional_count(self, key: str) -> int | None:
        """None where it is null or missing."""
        return None if self.get(key) is None else self.count(key)

    def number(self, key: str) -> float:
        """A number above 0."""
        return positive(key, self.get(key))

    def optional_number(self, key: str) -> float | None:
        """None where it is null or missing."""
        return None if self.get(key) is None else self.number(key)

    def flag(self, key: str) -> bool:
        """False where it is null or missing."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            refuse_value(key, value)
        return bool(value)

    def choice(self, key: str, known: Mapping[str, str]) -> str:
        """What the word stands for."""
        value = self.get(key)
        if not isinstance(value, str) or value not in known:
            refuse_value(key, value, known)
        return known[value]

    def ids(self, key: str) -> tuple[int, ...]:
        """One token id, several or none."""
        value = self.get(key)
        found = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in found):
            refuse_value(key, value)
        return tuple(found)


def whole(key: str, value: object, least: int = 1, most: int = MOST) -> int:
    """`value`, which must be a whole number in these limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        refuse_value(key, value)
    return value


def positive(key: str, value: object) -> float:
    """`value`, which must be a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
        refuse_value(key, value)
    return float(value)


def refuse_value(
    key: str, value: object, known: Sequence[str] | Mapping[str, str] = ()
) -> NoReturn:
    """Raises UnsupportedModel that names the key and its value."""
    shown = "missing" if value is None else f"{value!r}"[:80]
    text = f"Known are: {', '.join(known)}." if known else ""
    raise UnsupportedModel(
        f"The model's config.json cannot be used: {key} is {shown}.",
        text,
        "Take another model, or the same one in GGUF.",
    )
