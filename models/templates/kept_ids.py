"""Finds in the sampled ids of an answer those that say exactly what a stretch of a new prompt says.

Compares bytes, so nothing about where the ids came from has to be trusted; control tokens never
match.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from models.templates.common_prefix import common_prefix
from models.tokenizers.base import Tokenizer

_ANCHOR_BYTES = 12
_MAX_CANDIDATES = 32
_MAX_SHIFT = 8
"""White-space characters of the template that an answer's first token may have swallowed."""


@dataclass(frozen=True, slots=True)
class KeptIds:
    """Ids as they were sampled, reasoning and end token included."""

    ids: tuple[int, ...]
    tokenizer: str = ""
    """Fingerprint of the tokenizer that they belong to; empty: the present one."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Characters start..end of a run, said by `ids`."""

    start: int
    end: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Island:
    """Ids between two control tokens, with their bytes."""

    ids: tuple[int, ...]
    data: bytes
    borders: tuple[int, ...]
    """Byte offset before each id, and the end."""


def islands(kept: KeptIds, tokenizer: Tokenizer) -> tuple[_Island, ...]:
    found: list[_Island] = []
    ids: list[int] = []
    pieces: list[bytes] = []
    for token_id in (*kept.ids, -1):
        piece = tokenizer.piece(token_id) if token_id >= 0 else b""
        if piece and token_id not in tokenizer.end_ids:
            ids.append(token_id)
            pieces.append(piece)
        elif ids:
            found.append(_Island(tuple(ids), b"".join(pieces), _borders(pieces)))
            ids, pieces = [], []
    return tuple(found)


def find_splice(
    text: str, start: int, end: int, room: tuple[int, int], found: tuple[_Island, ...]
) -> Splice | None:
    """The longest run of ids from text[start] on; None when not even one fits.

    room: the places up to which white space around start..end may be taken in.
    """
    best: Splice | None = None
    limit = end + _leading_space(text[end : room[1]])
    for shift in range(_trailing_space(text[room[0] : start]) + 1):
        target = text[start - shift : limit].encode()
        for island in found:
            for first in _candidates(island, target):
                splice = _longest(island, first, target, start - shift)
                if splice and splice.end > start and (best is None or splice.end >= best.end):
                    best = splice
    return best


def _borders(pieces: list[bytes]) -> tuple[int, ...]:
    borders = [0]
    for piece in pieces:
        borders.append(borders[-1] + len(piece))
    return tuple(borders)


def _candidates(island: _Island, target: bytes) -> Iterator[int]:
    """Indexes of ids at which the target may begin: likely ones first, and not too many.

    An answer that repeats itself has thousands of places that begin like it.
    """
    yield 0
    core, anchor = target.rstrip(), target[:_ANCHOR_BYTES]
    places = [island.data.rfind(core)] if core else []
    place = len(island.data)
    while len(places) <= _MAX_CANDIDATES and place >= 0 and anchor:
        place = island.data.rfind(anchor, 0, place + len(anchor) - 1)
        places.append(place)
    for place in places:
        index = bisect_left(island.borders, place)
        if place > 0 and island.borders[index] == place:
            yield index


def _longest(island: _Island, first: int, target: bytes, start: int) -> Splice | None:
    offset = island.borders[first]
    same = common_prefix(island.data[offset : offset + len(target)], target)
    last = bisect_right(island.borders, offset + same) - 1
    while last > first and not _whole_characters(target, island.borders[last] - offset):
        last -= 1
    if last == first:
        return None
    length = island.borders[last] - offset
    return Splice(start, start + len(target[:length].decode()), island.ids[first:last])


def _whole_characters(target: bytes, length: int) -> bool:
    return length == len(target) or target[length] & 0xC0 != 0x80


def _leading_space(text: str) -> int:
    return min(len(text) - len(text.lstrip()), _MAX_SHIFT)


def _trailing_space(text: str) -> int:
    return min(len(text) - len(text.rstrip()), _MAX_SHIFT)
