"""Between rows and values: which columns, how ids and infos are packed. No SQL statement is run
here.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any

import msgspec

from app.store.conversation import AnswerInfo, Chat, ChatSummary, Message

CHAT_COLUMNS = "id, title, title_source, created, updated, date, system, current_leaf"
MESSAGE_COLUMNS = (
    "id, chat_id, parent_id, role, text, reasoning, status, ids, tokenizer, created, info"
)


def chat_from(row: tuple[Any, ...], private: bool = False) -> Chat:
    """A row of CHAT_COLUMNS."""
    id_, title, source, created, updated, date, system, leaf = row
    return Chat(id_, title, source, created, updated, date, system, leaf, private)


def message_from(row: tuple[Any, ...]) -> Message:
    """A row of MESSAGE_COLUMNS."""
    id_, chat_id, parent_id, role, text, reasoning, status, ids, tokenizer, created, info = row
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


def storable(text: str) -> str:
    """Text that UTF-8 can hold: lone surrogates become replacement marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
