"""A chat as one JSON document or as Markdown, and back.

The branch on screen is what is written. What is read is untrusted: it is checked before anything is
stored. It knows the form of the document, and nothing of files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from app.sanitize import single_line
from app.store.conversation import Chat, Message
from app.store.history import History
from engine.errors import UsageError

FORMAT = "localchat.chat"
VERSION = 1

Text = Annotated[str, msgspec.Meta(max_length=10_000_000)]


class PortableMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["user", "assistant"]
    text: Text
    reasoning: Text = ""
    created: float = 0.0


class PortableChat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["localchat.chat"]
    version: Literal[1]
    title: Annotated[str, msgspec.Meta(max_length=10_000)]
    messages: Annotated[tuple[PortableMessage, ...], msgspec.Meta(max_length=100_000)]
    system: Text | None = None
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class Branch:
    """A chat and its path from the first message to the leaf on screen."""

    chat: Chat
    messages: Sequence[Message]


def read_branch(history: History, chat_id: int) -> Branch:
    return Branch(history.chat(chat_id), history.path(chat_id))


def as_document(branch: Branch) -> dict[str, Any]:
    """The form that `read_document` reads."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": branch.chat.title,
        "system": branch.chat.system,
        "created": branch.chat.created,
        "messages": [
            {
                "role": message.role,
                "text": message.text,
                "reasoning": message.reasoning,
                "created": message.created,
            }
            for message in branch.messages
        ],
    }


def as_markdown(branch: Branch) -> str:
    """For reading; a heading for each turn."""
    parts = [f"# {branch.chat.title or 'Chat'}"]
    if branch.chat.system:
        parts.append(f"## System\n\n{branch.chat.system}")
    for message in branch.messages:
        parts.append(f"## {'You' if message.role == 'user' else 'Answer'}\n\n{message.text}")
    return "\n\n".join(parts) + "\n"


def read_document(data: bytes) -> PortableChat:
    """A checked document; UsageError says where it is wrong."""
    try:
        return msgspec.convert(json.loads(data), PortableChat)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise UsageError(
            "This is no exported chat.",
            single_line(str(error), 200),
            "Write one with `localchat chats export ID`.",
        ) from error


def store_document(history: History, document: PortableChat) -> Chat:
    """A new chat with the document's messages in one branch."""
    chat = history.new_chat(document.system, document.title or None)
    parent: int | None = None
    for message in document.messages:
        if message.role == "user":
            parent = history.add_user(chat.id, parent, message.text).id
        else:
            parent = history.begin_answer(chat.id, parent).id
            history.finish_answer(parent, "complete", message.text, message.reasoning)
    return history.chat(chat.id)
