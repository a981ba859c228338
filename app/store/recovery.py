"""Brings what is readable of a damaged database into a new one. It never writes to the damaged one.

Rows are recognised by their shape: number and kinds of columns. What lost its parent becomes a
first message, what lost its chat gets one.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from app.store.conversation import Status, TitleSource
from app.store.pages import Pages, Row, Value
from app.store.text import storable
from app.store.titles import title_from

Kind = tuple[type, ...]
NONE, TEXT, INTEGER = type(None), str, int
NUMBER = (int, float)

# The first column, the id, is the row's number and stored as None.
CHAT: tuple[Kind, ...] = (
    (NONE,), (TEXT,), (TEXT,), NUMBER, NUMBER, (TEXT,), (TEXT, NONE), (INTEGER, NONE),
    (*NUMBER, NONE),
)  # fmt: skip
MESSAGE: tuple[Kind, ...] = (
    (NONE,), (INTEGER,), (INTEGER, NONE), (TEXT,), (TEXT,), NUMBER, (TEXT,), (TEXT, NONE), (TEXT,),
    (TEXT, NONE), (bytes, NONE), (TEXT, NONE), (TEXT, NONE),
)  # fmt: skip
FIRST_MESSAGE = MESSAGE[:11]
"""As the first shape had it; rows stay so until they are written again."""
DRAFT: tuple[Kind, ...] = ((NONE,), (TEXT,), NUMBER, (NONE, TEXT))
FIRST_DRAFT = DRAFT[:3]

INSERT_CHAT = "INSERT INTO chats VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_MESSAGE = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_DRAFT = "INSERT INTO drafts VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Recovered:
    chats: int
    messages: int


@dataclass(slots=True)
class Found:
    """Rows by id, values in column order with the id in front."""

    chats: dict[int, list[Any]] = field(default_factory=dict)
    messages: dict[int, list[Any]] = field(default_factory=dict)
    drafts: dict[int, list[Any]] = field(default_factory=dict)


def recover(path: Path, log: Path, target: sqlite3.Connection) -> Recovered:
    """Fills `target`, an empty database of the current shape."""
    found = collect(Pages.read(path, log))
    mend(found)
    target.execute("BEGIN IMMEDIATE")
    target.execute("UPDATE meta SET changes = changes + 1")
    target.executemany(INSERT_CHAT, [found.chats[one] for one in sorted(found.chats)])
    target.executemany(INSERT_MESSAGE, [found.messages[one] for one in sorted(found.messages)])
    target.executemany(INSERT_DRAFT, found.drafts.values())
    target.execute("COMMIT")
    return Recovered(len(found.chats), len(found.messages))


def collect(pages: Pages) -> Found:
    """All rows that look like ours."""
    found = Found()
    for row in pages.rows():
        if row.rowid < 0:
            continue
        for shape, is_ours, rows in (
            (MESSAGE, is_message, found.messages),
            (FIRST_MESSAGE, is_message, found.messages),
            (CHAT, is_chat, found.chats),
            (DRAFT, always, found.drafts),
            (FIRST_DRAFT, always, found.drafts),
        ):
            if fits(row.values, shape) and is_ours(row.values):
                rows[row.rowid] = values_of(row)
                break
    return found


def fits(values: tuple[Value, ...], shape: tuple[Kind, ...]) -> bool:
    return len(values) == len(shape) and all(map(isinstance, values, shape))


def always(values: tuple[Value, ...]) -> bool:
    return True


def is_chat(values: tuple[Value, ...]) -> bool:
    return values[2] in get_args(TitleSource)


def is_message(values: tuple[Value, ...]) -> bool:
    return values[3] in ("user", "assistant") and values[4] in get_args(Status)


def values_of(row: Row) -> list[Any]:
    """The row's values as they can be stored again."""
    return [row.rowid, *map(sane, row.values[1:])]


def sane(one: Value) -> Value:
    if isinstance(one, float) and not math.isfinite(one):
        return 0.0
    return storable(one) if isinstance(one, str) else one


def mend(found: Found) -> None:
    """Afterwards every message has its chat, every parent exists, every chat stands at one of its
    leaves, and every row has all columns.
    """
    for message in found.messages.values():
        mend_message(message, found)
    for draft in found.drafts.values():
        draft += [None] * (len(DRAFT) - len(draft))
    for chat_id in {message[1] for message in found.messages.values()} - found.chats.keys():
        found.chats[chat_id] = new_chat(chat_id, found.messages)
    for chat in found.chats.values():
        own = [one[0] for one in found.messages.values() if one[1] == chat[0]]
        if chat[7] not in own:
            chat[7] = max(own, default=None)


def mend_message(message: list[Any], found: Found) -> None:
    parent = found.messages.get(message[2])
    if parent is None or parent[1] != message[1] or parent[0] >= message[0]:
        message[2] = None
    message += [None] * (len(MESSAGE) - len(message))
    if message[9] is None:
        message[9] = ""
    if message[4] == "streaming":
        message[4] = "cut"


def new_chat(chat_id: int, messages: Mapping[int, list[Any]]) -> list[Any]:
    """A chat for messages whose own is lost."""
    own = [message for message in messages.values() if message[1] == chat_id]
    first = min(own, key=by_id)
    times = [message[5] for message in own]
    title = title_from(str(first[8])) or "Recovered chat"
    return [chat_id, title, "first line", min(times), max(times), "", None, None, None]


def by_id(message: list[Any]) -> int:
    return int(message[0])
