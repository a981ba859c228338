"""How much of what a search found stands beside a question: a budget of tokens, never of passages.

Knows a search and a way to count; neither an index nor a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.knowledge.passage import Passage, Retrieved
from app.knowledge.prompt import prefix
from app.knowledge.sources import Sources

Search = Callable[[int], Retrieved]
"""Finds passages within a budget of characters."""
Count = Callable[[str], int]
"""Tokens of a text."""

MOST_TOKENS = 2048
"""About 8,000 characters of English: 0.93 of the evidence in measurements, and twice as much adds
little.
"""
CONTEXT_SHARE = 2
"""Documents take at most half of the context."""
ROOM_SHARE = 4
"""An answer keeps a quarter of the context."""
MOST_CHARACTERS = 8000
TRIES = 3
MARK = "0" * 8


def budget(context: int, used: int = 0) -> int:
    """Tokens of all documents beside one question, the rules around them included.

    `used`: tokens of the conversation so far. Two thirds of the room that is left, so that a
    conversation goes on for many questions before its oldest turns have to go; a quarter of the
    most in any case, as a question without evidence is worth nothing.
    """
    most = max(min(MOST_TOKENS, context // CONTEXT_SHARE), 1)
    left = context - context // ROOM_SHARE - used
    return max(min(most, 2 * left // 3), most // 4, 1)


def fitting(search: Search, count: Count, tokens: int) -> Retrieved:
    """The search with as many characters as `tokens` hold."""
    characters = MOST_CHARACTERS
    for _ in range(TRIES):
        found = search(characters)
        used = size(found.passages, count)
        if used <= tokens:
            return found
        characters = max(int(0.9 * characters * tokens / used), 200)
    return shrunk(found, count, tokens)


def shrunk(found: Retrieved, count: Count, tokens: int) -> Retrieved:
    """Without its weakest passages; the last one is cut."""
    passages = list(found.passages)
    dropped: list[Passage] = []
    while len(passages) > 1 and size(passages, count) > tokens:
        weakest = min(passages, key=lambda passage: passage.score)
        passages.remove(weakest)
        dropped.insert(0, weakest)
    unused = (*dropped, *found.unused)
    if passages and size(passages, count) > tokens:
        passages = [cut(passages[0], count, tokens)]
    return replace(found, passages=tuple(passages), unused=unused)


def cut(passage: Passage, count: Count, tokens: int) -> Passage:
    """The beginning of a passage; at least its first words."""
    length = len(passage.text)
    shorter = passage
    while length > 50 and size([shorter], count) > tokens:
        length = length * 2 // 3
        shorter = beginning(passage, length)
    return shorter


def beginning(passage: Passage, length: int) -> Passage:
    text = passage.text[:length]
    last = passage.last_line
    if passage.first_line is not None:
        last = passage.first_line + text.count("\n")
    return replace(passage, text=text, end=passage.start + len(text), last_line=last)


def size(passages: list[Passage] | tuple[Passage, ...], count: Count) -> int:
    """Tokens of the passages with all that stands around them."""
    return count(prefix(Sources("", MARK, tuple(passages)))) if passages else 0


def estimate(text: str) -> int:
    """Tokens of a text where no vocabulary answers: rather too many."""
    plain = sum(character < "\u0250" for character in text)
    return -(-plain // 3) + len(text) - plain
