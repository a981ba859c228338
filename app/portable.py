"""A chat as one JSON document or as Markdown, and back: all its branches, the one on screen marked.

What is read is untrusted: it is checked before anything is stored. It knows the form of the
document, and nothing of files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from app.branches import other_branches, path_to
from app.knowledge.places import source_lines
from app.knowledge.sources import Citation, Sources
from app.sanitize import single_line
from app.store.conversation import Chat, Message
from app.store.history import History
from app.store.rows import Cited, as_path
from app.store.text import storable
from engine.errors import UsageError

FORMAT = "localchat.chat"
VERSION = 3
"""Version 1 had one branch: neither `parent` nor `current`, each message under the one before.
Version 2 had no documents: neither `sources` nor `citations` nor `said`.
"""

START_LENGTH = 60
"""Characters of a message that name a branch in Markdown."""

Text = Annotated[str, msgspec.Meta(max_length=10_000_000)]
Place = Annotated[int, msgspec.Meta(ge=0)]


class PortableMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["user", "assistant"]
    text: Text
    reasoning: Text = ""
    created: float = 0.0
    parent: Place | msgspec.UnsetType | None = msgspec.UNSET
    """Place of an earlier message in the document; None: a first message; unset: the one before."""
    sources: Sources | None = None
    citations: Annotated[tuple[Citation, ...], msgspec.Meta(max_length=1000)] = ()
    said: Text = ""


class PortableChat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["localchat.chat"]
    version: Literal[1, 2, 3]
    title: Annotated[str, msgspec.Meta(max_length=10_000)]
    messages: Annotated[tuple[PortableMessage, ...], msgspec.Meta(max_length=100_000)]
    system: Text | None = None
    created: float = 0.0
    current: Place | None = None
    """Place of the last message on screen; None: the last of the document."""


@dataclass(frozen=True, slots=True)
class WholeChat:
    """A chat and all its messages, in the order of their creation."""

    chat: Chat
    messages: Sequence[Message]


def read_whole(history: History, chat_id: int) -> WholeChat:
    return WholeChat(history.chat(chat_id), history.messages(chat_id))


def as_document(whole: WholeChat) -> dict[str, Any]:
    """The form that `read_document` reads."""
    places = {message.id: place for place, message in enumerate(whole.messages)}
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": whole.chat.title,
        "system": whole.chat.system,
        "created": whole.chat.created,
        "current": places.get(whole.chat.current_leaf or 0),
        "messages": [
            {
                "role": message.role,
                "text": message.text,
                "reasoning": message.reasoning,
                "created": message.created,
                "parent": places.get(message.parent_id or 0),
                **documents_of(message),
            }
            for message in whole.messages
        ],
    }


def documents_of(message: Message) -> dict[str, Any]:
    """What a message has to do with documents, where it has; names of files as text."""
    found = {
        "sources": message.sources,
        "citations": message.citations,
        "said": message.said,
    }
    return {name: exported(value) for name, value in found.items() if value}


def exported(value: Any) -> Any:
    """As JSON has it. A byte of a file's name that is no text becomes a replacement mark."""
    plain = msgspec.to_builtins(value, enc_hook=str)
    return json.loads(storable(json.dumps(plain, ensure_ascii=False)))


def as_markdown(whole: WholeChat) -> str:
    """For reading; a heading for each turn, the branch on screen before the others."""
    parts = [f"# {whole.chat.title or 'Chat'}"]
    if whole.chat.system:
        parts.append(f"## System\n\n{whole.chat.system}")
    path = path_to(whole.messages, whole.chat.current_leaf)
    parts += map(turn_markdown, path)
    by_id = {message.id: message for message in whole.messages}
    for branch in other_branches(whole.messages, path):
        parts.append(f"# {branch_heading(branch[0], by_id.get(branch[0].parent_id or 0))}")
        parts += map(turn_markdown, branch)
    return "\n\n".join(parts) + "\n"


def turn_markdown(message: Message) -> str:
    heading = f"## {'You' if message.role == 'user' else 'Answer'}"
    sources = "\n".join(f"- {line}" for line in source_lines(message.citations))
    return "\n\n".join(part for part in (heading, message.text, sources) if part)


def branch_heading(first: Message, parent: Message | None) -> str:
    """What a branch is an alternative to, by what it comes after."""
    kind = "question" if first.role == "user" else "answer"
    if parent is None:
        return f"Another first {kind}"
    start = single_line(parent.text, START_LENGTH)
    link = "after" if first.role == "user" else "to"
    return f"Another {kind} {link} “{start}”"


def read_document(data: bytes) -> PortableChat:
    """A checked document; UsageError says where it is wrong."""
    try:
        document = msgspec.convert(json.loads(data), PortableChat, dec_hook=as_path)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise refused(str(error)) from error
    for place, message in enumerate(document.messages):
        if isinstance(message.parent, int) and message.parent >= place:
            raise refused(f"The parent of message {place} does not come before it.")
    if document.current is not None and document.current >= len(document.messages):
        raise refused(f"There is no message {document.current}, which `current` names.")
    return document


def refused(reason: str) -> UsageError:
    return UsageError(
        "This is no exported chat.",
        single_line(reason, 200),
        "Write one with `localchat chats export ID`.",
    )


def store_document(history: History, document: PortableChat) -> Chat:
    """A new chat with the document's messages; the same branch is on screen."""
    chat = history.new_chat(document.system, document.title or None)
    ids: list[int] = []
    for message in document.messages:
        ids.append(store_message(history, chat.id, parent_id(message, ids), message))
    if document.current is not None:
        history.select(ids[document.current])
    return history.chat(chat.id)


def parent_id(message: PortableMessage, ids: Sequence[int]) -> int | None:
    """The id that the message's parent got."""
    if isinstance(message.parent, int):
        return ids[message.parent]
    return ids[-1] if ids and message.parent is not None else None


def store_message(
    history: History, chat_id: int, parent: int | None, message: PortableMessage
) -> int:
    if message.role == "user":
        return history.add_user(chat_id, parent, message.text, message.sources).id
    answer = history.begin_answer(chat_id, parent)
    cited = Cited(message.citations, message.said) if message.citations or message.said else None
    history.finish_answer(answer.id, "complete", message.text, message.reasoning, cited=cited)
    return answer.id
