"""Between rows and values: which columns, how ids and infos are packed. No SQL statement is run
here.

Documents and citations are JSON in ASCII: names of files may hold what UTF-8 cannot.
"""

from __future__ import annotations

import json
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from app.knowledge.sources import Citation, Sources
from app.store.conversation import AnswerInfo, Chat, ChatSummary, Message
from app.store.text import storable

CHAT_COLUMNS = "id, title, title_source, created, updated, date, system, current_leaf"
MESSAGE_COLUMNS = (
    "id, chat_id, parent_id, role, text, reasoning, status, ids, tokenizer, created, info, "
    "sources, cited"
)

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Cited:
    """What an answer keeps of its citations."""

    citations: tuple[Citation, ...] = ()
    said: str = ""


def chat_from(row: tuple[Any, ...], private: bool = False) -> Chat:
    """A row of CHAT_COLUMNS."""
    id_, title, source, created, updated, date, system, leaf = row
    return Chat(id_, title, source, created, updated, date, system, leaf, private)


def message_from(row: tuple[Any, ...]) -> Message:
    """A row of MESSAGE_COLUMNS."""
    id_, chat_id, parent_id, role, text, reasoning, status, ids, tokenizer, *rest = row
    created, info, sources, cited = rest
    found = unpack(cited, Cited) or Cited()
    return Message(
        id=id_,
        chat_id=chat_id,
        parent_id=parent_id,
        role=role,
        text=text,
        reasoning=reasoning,
        status=status,
        ids=unpack_ids(ids),
        tokenizer=tokenizer,
        created=created,
        info=unpack_info(info),
        sources=unpack(sources, Sources),
        citations=found.citations,
        said=found.said,
    )


def summary_from(row: tuple[Any, ...]) -> ChatSummary:
    """A row of id, title, created, updated, number of messages."""
    return ChatSummary(*row)


def pack_ids(ids: tuple[int, ...]) -> bytes:
    """Token ids as int32, little endian."""
    packed = array("i", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_ids(blob: bytes | None) -> tuple[int, ...]:
    """What `pack_ids` packed; nothing where the blob is damaged."""
    if not blob or len(blob) % 4:
        return ()
    packed = array("i", blob)
    if sys.byteorder == "big":
        packed.byteswap()
    return tuple(packed)


def pack_info(info: AnswerInfo | None) -> str | None:
    return None if info is None else storable(msgspec.json.encode(info).decode())


def unpack_info(text: str | None) -> AnswerInfo | None:
    """The info of an answer; None where it was written by a program that means something else by
    it.
    """
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=AnswerInfo)
    except (msgspec.DecodeError, UnicodeError):
        return None


def pack(value: object) -> str:
    """A dataclass as ASCII text; `unpack` gives it back, undecodable file names included."""
    return json.dumps(msgspec.to_builtins(value, enc_hook=str))


def unpack(text: str | None, kind: type[Kind]) -> Kind | None:
    """None where there is nothing, or where a program wrote it that means something else by it."""
    if text is None:
        return None
    try:
        return msgspec.convert(json.loads(text), kind, dec_hook=as_path)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None


def as_path(kind: type, value: object) -> object:
    """msgspec's hook for paths; NotImplementedError is how it is told of any other type."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(kind)
