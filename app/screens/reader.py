"""What the chat screen reads from the store, for use in a thread. It draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.messages import AnswerBegun, ChatView

if TYPE_CHECKING:
    from app.session import Session
    from app.store.conversation import Message

BRANCHES_READ = 400
"""Siblings are looked up for this many of the last messages."""


def read_chat(session: Session, chat_id: int) -> ChatView:
    """A chat with its visible branch, the branch points on it, and its draft."""
    history = session.history
    path = history.path(chat_id)
    return ChatView(
        history.chat(chat_id),
        tuple(path),
        read_siblings(session, path[-BRANCHES_READ:]),
        history.draft(chat_id),
    )


def read_siblings(session: Session, messages: Sequence[Message]) -> dict[int, tuple[int, ...]]:
    siblings = {message.id: tuple(session.history.siblings(message.id)) for message in messages}
    return {message_id: ids for message_id, ids in siblings.items() if len(ids) > 1}


def read_begun(session: Session, chat_id: int, question_id: int, answer_id: int) -> AnswerBegun:
    """The two turns that an answer begins with."""
    history = session.history
    question, answer = history.message(question_id), history.message(answer_id)
    return AnswerBegun(
        history.chat(chat_id), question, answer, read_siblings(session, [question, answer])
    )


def export_text(session: Session, chat_id: int, as_json: bool) -> str:
    """A chat with all its branches as Markdown, or as the document that `chats import` reads."""
    from app.portable import as_document, as_markdown, read_whole

    whole = read_whole(session.history, chat_id)
    if not as_json:
        return as_markdown(whole)
    import json

    return json.dumps(as_document(whole), ensure_ascii=False, indent=2) + "\n"
