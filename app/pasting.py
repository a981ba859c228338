"""Tells pasted text from typed keys in what a terminal sends.

Some terminals mark a paste with brackets, some send it as raw keys; in both cases no line end
inside it may act as the Enter key. It knows no widget and no clock of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

START = "\x1b[200~"
END = "\x1b[201~"

LONG = 64
"""A read of more plain characters than this was not typed."""
GAP_S = 0.05
"""What follows a burst of several lines within this time belongs to it."""

PLAIN = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class Piece:
    kind: Literal["keys", "paste"]
    text: str


class PasteReader:
    """Cuts the stream of one terminal into keys and pastes."""

    def __init__(self) -> None:
        self._paste: str | None = None
        self._held = ""
        self._burst_at = float("-inf")

    def feed(self, text: str, now: float) -> list[Piece]:
        """`now` in seconds; it is the time at which `text` was read."""
        text, self._held = self._held + text, ""
        pieces: list[Piece] = []
        while text:
            if self._paste is None:
                text = self._read_keys(text, now, pieces)
            else:
                text = self._read_paste(text, pieces)
        return pieces

    def flush(self) -> list[Piece]:
        """Nothing more came: half a bracket was not one."""
        held, self._held = self._held, ""
        return [Piece("keys", held)] if held else []

    def _read_paste(self, text: str, pieces: list[Piece]) -> str:
        assert self._paste is not None
        searched = max(len(self._paste) - len(END) + 1, 0)
        self._paste += text
        end = self._paste.find(END, searched)
        if end < 0:
            return ""
        rest = self._paste[end + len(END) :]
        pieces.append(Piece("paste", self._paste[:end].replace("\x00", "")))
        self._paste = None
        return rest

    def _read_keys(self, text: str, now: float, pieces: list[Piece]) -> str:
        before, bracket, rest = text.partition(START)
        if bracket:
            self._paste = ""
        else:
            before, self._held = split_half_bracket(before)
        for part in before.split(END):
            pieces.extend(self._classify(part, now))
        return rest

    def _classify(self, text: str, now: float) -> list[Piece]:
        if not text:
            return []
        if PLAIN.fullmatch(text) is None or not self._is_burst(text, now):
            return [Piece("keys", text)]
        if not has_inner_break(text) and now - self._burst_at > GAP_S:
            body = text.rstrip("\r\n")
            return [
                Piece("paste", body),
                *([Piece("keys", text[len(body) :])] if body != text else []),
            ]
        self._burst_at = now
        return [Piece("paste", text)]

    def _is_burst(self, text: str, now: float) -> bool:
        return has_inner_break(text) or len(text) > LONG or now - self._burst_at <= GAP_S


def has_inner_break(text: str) -> bool:
    """A line end with text behind it."""
    return re.search(r"[\r\n][^\r\n]", text) is not None


def split_half_bracket(text: str) -> tuple[str, str]:
    """Text, and the beginning of a paste bracket at its end; a lone ESC is a key."""
    for length in range(len(START) - 1, 2, -1):
        if text.endswith(START[:length]):
            return text[:-length], START[:length]
    return text, ""
