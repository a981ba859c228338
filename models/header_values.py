"""Typed access to a header's keys: a value of the wrong kind is an error that names its key."""

from __future__ import annotations

from math import isfinite

from models.errors import ModelFileError
from models.loaders.gguf import ArrayValue, GGUFFile, MetadataValue
from models.sizes import show_name

_MAX_SHORT_ARRAY = 10_000


class HeaderValues:
    def __init__(self, file: GGUFFile) -> None:
        self.file = file

    def value(self, key: str) -> MetadataValue | None:
        return self.file.metadata.get(key)

    def text(self, key: str) -> str:
        """Empty when there is none."""
        value = self.value(key)
        return value if isinstance(value, str) else ""

    def integer(self, key: str) -> int | None:
        """None when absent; of an array the largest."""
        return max(self.integers(key), default=None)

    def integers(self, key: str) -> tuple[int, ...]:
        """A number or a short array of numbers; empty when absent."""
        value = self.value(key)
        if value is None:
            return ()
        if isinstance(value, ArrayValue):
            return self._array(key, value)
        if type(value) is not int:
            raise self.damaged(f"{key} is no whole number")
        return (value,)

    def number(self, key: str) -> float | None:
        """A whole or fractional number; None when absent."""
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self.damaged(f"{key} is no finite number")
        return float(value)

    def flags(self, key: str) -> tuple[bool, ...]:
        """An array of truth values; empty when absent or something else."""
        value = self.value(key)
        if not isinstance(value, ArrayValue) or value.count > _MAX_SHORT_ARRAY:
            return ()
        items = value.read() if value.element_type not in (8, 9) else []
        return tuple(bool(item) for item in items)

    def positive(self, key: str) -> int:
        """A number above 0 that has to be there."""
        value = self.integer(key)
        if value is None:
            raise self.damaged(f"{key} is missing")
        if not 0 < value < 2**31:
            raise self.damaged(f"{key} is {value:,}")
        return value

    def damaged(self, what: str) -> ModelFileError:
        return ModelFileError(
            f"{show_name(self.file.path)} is damaged.",
            f"In its header {what}.",
            "Download the file again, or use another one.",
        )

    def _array(self, key: str, value: ArrayValue) -> tuple[int, ...]:
        if value.count > _MAX_SHORT_ARRAY or value.element_type in (8, 9):
            raise self.damaged(f"{key} is not a short list of numbers")
        items = value.read()
        if any(type(item) is not int for item in items):
            raise self.damaged(f"{key} is not a list of whole numbers")
        return tuple(int(item) for item in items)
