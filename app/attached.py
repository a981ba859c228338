"""Text that comes with a question: files, piped text, pastes. Short text stands before the
question; long text is searched, so that a question never costs more reading than it is worth.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.errors import file_error
from app.sanitize import single_line
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

    @property
    def labelled(self) -> str:
        return f'File "{self.name}":\n{self.text}' if self.name else self.text


@dataclass(frozen=True, slots=True)
class Placed:
    """A question and what became of the text that came with it."""

    text: str
    """The question, with the text before it where that goes in whole."""
    searched: tuple[Attachment, ...] = ()
    notices: tuple[str, ...] = ()


def place(
    question: str,
    attachments: Sequence[Attachment],
    count: Callable[[str], int],
    context: int,
    choice: Literal["auto", "whole", "search"] = "auto",
) -> Placed:
    """`count`: tokens of a text; `context`: tokens of prompt and answer together."""
    given = [one for one in attachments if one.text.strip()]
    if not given:
        return Placed(question)
    text = "\n\n".join(one.labelled.strip("\n") for one in given)
    whole = "\n\n".join(part for part in (text, question.strip("\n")) if part.strip())
    limit = min(MOST_TOKENS, context // 2)
    is_huge = len(text) > MOST_CHARACTERS
    tokens = 0 if is_huge else count(text)
    names = ", ".join(one.name or "attached text" for one in given)
    is_long = is_huge or tokens > limit
    if question.strip() and (choice == "search" or (choice == "auto" and is_long)):
        size = f"about {len(text) // 4:,}" if is_huge else f"{tokens:,}"
        notice = SEARCHED.format(names=names, tokens=size, limit=f"{limit:,}")
        return Placed(question, tuple(given), (notice,))
    is_told = any(one.name for one in given) and not is_huge
    told = (READ.format(names=names, tokens=f"{tokens:,}"),) if is_told else ()
    return Placed(whole, (), told)


def split_paste(text: str) -> tuple[str, tuple[Attachment, ...]]:
    """A message that was pasted as question and text: its last paragraph, else its first, where
    that is short. Everything is the question where neither is, and where the whole is short.
    """
    if len(text) <= MOST_TOKENS:
        return text, ()
    paragraphs = re.split(r"\n\s*\n", text.strip())
    for question, rest in ((paragraphs[-1], paragraphs[:-1]), (paragraphs[0], paragraphs[1:])):
        if rest and len(question) <= QUESTION_CHARACTERS:
            return question, (Attachment("", "\n\n".join(rest)),)
    return text, ()


def attached_file(name: str) -> Attachment:
    """A file by its path; UsageError for what is no readable text file."""
    path = Path(name)
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
    if b"\0" in data[:65536]:
        raise UsageError(f"{shown} is no text file.", "", "Attach plain text.")
    text = data.decode("utf-8-sig", "replace").rstrip("\n")
    return Attachment(single_line(path.name), text)
