"""Text that comes with a question: files, piped text, pastes. Short text stands before the
question; long text is searched, so that a question never costs more reading than it is worth.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from app.errors import file_error
from app.knowledge.given import Given, given_in
from app.sanitize import single_line
from app.store.conversation import Message
from app.store.text import storable
from engine.errors import UsageError

MOST_BYTES = 20_000_000
"""More text than any context window holds; a larger file is a mistake."""


MOST_TOKENS = 4096
"""Up to here text goes in whole, where the context has twice the room."""
MOST_CHARACTERS = 8 * MOST_TOKENS
"""No 4,096 tokens are longer: such text need not be counted."""
QUESTION_CHARACTERS = 500
"""A longer paragraph of a paste is not taken for its question."""
SEARCHED = (
    "{names}: {tokens} tokens, more than {limit}. It is searched, and what fits your question is "
    "read. attach=whole (-o, /set) reads it all."
)
READ = "{names}: {tokens} tokens, read whole."


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    """Safe to show; empty: text without a name."""
    text: str
    is_own: bool = False
    """Whether it counts as written by the person, as what is piped into a question does."""
    notice: str = ""
    """What of a file was guessed or lost."""

    @property
    def labelled(self) -> str:
        return f'File "{self.name}":\n{self.text}' if self.name else self.text


@dataclass(frozen=True, slots=True)
class Placed:
    """A question and what became of the text that came with it."""

    text: str
    """The question, with the text that goes in whole."""
    given: Given | None = None
    """Where that text stands in it."""
    searched: tuple[Attachment, ...] = ()
    notices: tuple[str, ...] = ()


def place(
    question: str,
    attachments: Sequence[Attachment],
    count: Callable[[str], int],
    context: int,
    choice: Literal["auto", "whole", "search"] = "auto",
    as_written: str | None = None,
) -> Placed:
    """`count`: tokens of a text; `context`: tokens of prompt and answer together; `as_written`:
    question and texts as one message, for text that goes in whole.
    """
    given = [one for one in attachments if one.text.strip()]
    if not given:
        return Placed(question if as_written is None else as_written)
    read = tuple(f"{one.name}: {one.notice}." for one in given if one.notice)
    texts = [one.labelled.strip("\n") for one in given]
    text = "\n\n".join(texts)
    limit = min(MOST_TOKENS, context // 2)
    is_huge = len(text) > MOST_CHARACTERS
    tokens = 0 if is_huge else count(text)
    names = ", ".join(one.name or "attached text" for one in given)
    is_long = is_huge or tokens > limit
    if question.strip() and (choice == "search" or (choice == "auto" and is_long)):
        size = f"about {len(text) // 4:,}" if is_huge else f"{tokens:,}"
        notice = SEARCHED.format(names=names, tokens=size, limit=f"{limit:,}")
        return Placed(question, searched=tuple(given), notices=(notice, *read))
    is_told = any(one.name for one in given) and not is_huge
    told = (*((READ.format(names=names, tokens=f"{tokens:,}"),) if is_told else ()), *read)
    if not question.strip():
        return Placed(text, notices=told)  # The text is the message itself.
    others = [one.labelled.strip("\n") for one in given if not one.is_own]
    message, found = with_texts(question, texts, as_written, others)
    return Placed(message, found, notices=told)


def with_texts(
    question: str, texts: Sequence[str], as_written: str | None, others: Sequence[str]
) -> tuple[str, Given | None]:
    """The message that holds question and texts, as a person put them together, else the texts
    first; and where those of `others` stand in it.
    """
    stored = [storable(text) for text in texts]
    if as_written is not None:
        message = storable(as_written)
        given = given_in(message, stored)
        if given is not None and len(given.stretches) == len(stored):
            return message, given
    message = "\n\n".join((*stored, storable(question).strip("\n")))
    return message, given_in(message, [storable(text) for text in others])


def with_older(placed: Placed, old: Message) -> Placed:
    """A new version of a message: what came with the old one, and still stands in it, stays what it
    is.
    """
    given = None if old.sources is None else old.sources.given
    if given is None:
        return placed
    texts = [old.text[start:end] for start, end in given.stretches]
    return replace(placed, given=given_in(storable(placed.text), texts, given.mark, placed.given))


def split_paste(text: str) -> tuple[str, tuple[Attachment, ...]]:
    """A message that was pasted as question and text: its last paragraph, else its first, where
    that is short. Everything is the question where neither is, and where the whole is short.
    """
    if len(text) <= MOST_TOKENS:
        return text, ()
    whole = text.strip()
    breaks = list(re.finditer(r"\n\s*\n", whole))
    if breaks:
        first, last = breaks[0], breaks[-1]
        for question, rest in (
            (whole[last.end() :], whole[: last.start()]),
            (whole[: first.start()], whole[first.end() :]),
        ):
            if len(question) <= QUESTION_CHARACTERS:
                return question, (Attachment("", rest),)
    return text, ()


def attached_file(path: Path) -> Attachment:
    """A file's whole text with single line ends; UsageError for what is no readable text file."""
    from app.knowledge.reading.encoding import decode  # not before the first paint
    from app.knowledge.reading.source import Refused

    shown = single_line(os.fspath(path))
    try:
        if path.is_dir():
            raise UsageError(f"{shown} is a folder.", "", "Name a text file.")
        if not path.exists():
            raise UsageError(f"There is no file {shown}.", "", "Check the path.")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise UsageError(
                f"{shown} is too large.",
                f"It has {size:,} bytes; at most {MOST_BYTES:,} can be attached.",
                "Attach a part of it.",
            )
        data = path.read_bytes()
    except OSError as error:
        raise file_error(error, path) from error
    try:
        decoded = decode(data)
    except Refused as error:
        raise UsageError(f"{shown} is no text file.", "", "Attach plain text.") from error
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return Attachment(single_line(path.name), text, notice=decoded.notice)
