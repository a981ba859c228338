"""Token texts of a `tokenizer.json` as bytes, by the rules that its decoder names.

Knows the three ways in which vocabularies write what is not plain text: a letter for each byte
(GPT-2), a sign for the space and `<0x0A>` for a byte (SentencePiece). Knows no ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_PLAIN = frozenset(("Fuse", "Strip", "Replace", "ByteFallback", "ByteLevel", "Metaspace"))


class UnknownDecoder(Exception):
    """A decoder whose rules are not known; the words name it."""


@dataclass(frozen=True)
class PieceRules:
    byte_level: bool = False
    byte_fallback: bool = False
    spaces: tuple[tuple[str, str], ...] = ()
    """Texts in a token and what they stand for."""

    def bytes_of(self, token: str) -> bytes:
        """What the token adds to a text."""
        if self.byte_level:
            return self._from_letters(token)
        if self.byte_fallback and (match := _BYTE.fullmatch(token)):
            return bytes([int(match[1], 16)])
        return self.bytes_of_added(token)

    def bytes_of_added(self, content: str) -> bytes:
        """As `bytes_of`, for a token that is found in text before all cutting: it has no letters
        for bytes, but may have the sign for spaces.
        """
        for sign, text in self.spaces:
            content = content.replace(sign, text)
        return content.encode("utf-8", "replace")

    def _from_letters(self, token: str) -> bytes:
        values = [self._letters.get(letter) for letter in token]
        if None in values:
            return token.encode("utf-8", "replace")
        return bytes(value for value in values if value is not None)

    @cached_property
    def _letters(self) -> Mapping[str, int]:
        return byte_letters()


def piece_rules(spec: Mapping[str, Any]) -> PieceRules:
    """Of a whole `tokenizer.json`. Raises UnknownDecoder."""
    steps = list(_steps(spec.get("decoder"))) or list(_steps(spec.get("pre_tokenizer")))
    byte_level = byte_fallback = False
    spaces: list[tuple[str, str]] = []
    for step in steps:
        kind = step.get("type")
        if kind not in _PLAIN and spec.get("decoder"):
            raise UnknownDecoder(str(kind))
        byte_level |= kind == "ByteLevel"
        byte_fallback |= kind == "ByteFallback"
        if kind == "Metaspace":
            spaces.append((str(step.get("replacement", "▁")), " "))
        elif kind == "Replace" and isinstance(sign := _pattern(step), str):
            spaces.append((sign, str(step.get("content", ""))))
    return PieceRules(byte_level, byte_fallback, tuple(spaces))


def byte_letters() -> dict[str, int]:
    """The letter that byte-level vocabularies write for each byte: printable Latin-1 as it is, the
    others from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(value): value for value in printable}
    others = (value for value in range(256) if value not in printable)
    return letters | {chr(0x100 + place): value for place, value in enumerate(others)}


def _steps(part: object) -> Iterator[Mapping[str, Any]]:
    """A pipeline's steps in order, nested sequences opened."""
    if not isinstance(part, dict):
        return
    inner = part.get("decoders") or part.get("pretokenizers") or part.get("normalizers")
    if part.get("type") == "Sequence" and isinstance(inner, list):
        for step in inner:
            yield from _steps(step)
        return
    yield part


def _pattern(step: Mapping[str, Any]) -> object:
    pattern = step.get("pattern")
    return pattern.get("String") if isinstance(pattern, dict) else None
