"""Splits an answer into reasoning and text.

A tag that is a token of the vocabulary is recognised by its id alone; only a tag that is none is
looked for in the text: the opening one at the very start of the answer, the closing one inside an
open block. After the block a quoted tag is text like any other. Line breaks right after a tag
belong to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from engine.output.stopping import held_back


@dataclass(frozen=True, slots=True)
class Split:
    text: str = ""
    reasoning: str = ""

    def __add__(self, other: Split) -> Split:
        return Split(self.text + other.text, self.reasoning + other.reasoning)


class _Place(Enum):
    START = auto()
    """Nothing but white space so far: an opening tag may follow."""
    OPEN = auto()
    ANSWER = auto()


class ThinkingSplitter:
    """`open_tag` and `close_tag` are None where the vocabulary has a token for them."""

    def __init__(self, open_tag: str | None, close_tag: str | None, inside: bool) -> None:
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._place = _Place.OPEN if inside else _Place.START
        self._held = ""
        self._after_tag = False

    @property
    def unfinished(self) -> bool:
        """Inside a block that has not closed."""
        return self._place is _Place.OPEN

    def push(self, text: str) -> Split:
        if not text:
            return Split()
        if self._place is _Place.ANSWER and not self._after_tag:
            return Split(text=text)
        text, self._held = self._held + text, ""
        if self._after_tag:
            text = text.lstrip("\r\n")
            if not text:
                return Split()
            self._after_tag = False
        return self._route(text)

    def open(self) -> Split:
        """The opening token was sampled."""
        split = self.finish() if self._held.strip() else Split()
        self._enter(_Place.OPEN)
        return split

    def close(self) -> Split:
        """The closing token was sampled; outside a block it means nothing."""
        if self._place is not _Place.OPEN:
            return Split()
        split = self.finish()
        self._enter(_Place.ANSWER)
        return split

    def finish(self) -> Split:
        """What was held back and did not become a tag."""
        text, self._held = self._held, ""
        return Split(reasoning=text) if self._place is _Place.OPEN else Split(text=text)

    def _enter(self, place: _Place) -> None:
        self._place = place
        self._held = ""
        self._after_tag = True

    def _route(self, text: str) -> Split:
        if self._place is _Place.START:
            return self._at_start(text)
        if self._place is _Place.OPEN:
            return self._inside(text)
        return Split(text=text)

    def _at_start(self, text: str) -> Split:
        begun = text.lstrip()
        tag = self._open_tag
        if not begun or (tag and len(begun) < len(tag) and tag.startswith(begun)):
            self._held = text
            return Split()
        if tag and begun.startswith(tag):
            self._enter(_Place.OPEN)
            return self.push(begun[len(tag) :])
        self._place = _Place.ANSWER
        return Split(text=text)

    def _inside(self, text: str) -> Split:
        tag = self._close_tag
        if tag is None:
            return Split(reasoning=text)
        reasoning, found, rest = text.partition(tag)
        if found:
            self._enter(_Place.ANSWER)
            return Split(reasoning=reasoning) + self.push(rest)
        keep = held_back(text, (tag,))
        self._held = text[len(text) - keep :]
        return Split(reasoning=text[: len(text) - keep])
