"""Names of chats: typed by a person, or proposed by the model when asked or when the settings say
so. The first line of a chat is its title until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import messages as m
from engine.errors import LocalchatError

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen
    from app.session import Session
    from app.store.conversation import Message


class Titles:
    """Renames chats of the chat screen."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen

    def rename(self, session: Session, chat_id: int, title: str) -> None:
        self.screen.work.in_store(lambda: m.ChatRenamed(session.history.rename(chat_id, title)))

    def propose(self, session: Session, chat_id: int) -> None:
        """The model's title, wanted by the person: a failure is told."""
        if self.screen.answering.run is not None or self.screen.loaded is None:
            self.screen.tell("The model must be ready and idle to propose a title.")
            return
        self.screen.work.in_thread(lambda: titled(session, chat_id), "title")

    def after(self, session: Session, answer: Message) -> None:
        """A first answer is complete; the engine lets the next question go before this job."""
        if session.settings.chat.auto_title and answer.status in ("complete", "cut"):
            self.screen.work.in_thread(lambda: first_title(session, answer.chat_id), "title")


def titled(session: Session, chat_id: int) -> m.ChatRenamed:
    session.title(chat_id)
    return m.ChatRenamed(session.history.chat(chat_id))


def first_title(session: Session, chat_id: int) -> m.ChatRenamed | None:
    """A title that nobody asked for: only where the first answer has none, and silent when it
    fails.
    """
    try:
        is_first = len(session.history.path(chat_id)) == 2
        if is_first and session.history.chat(chat_id).title_source == "first line":
            return titled(session, chat_id)
    except LocalchatError:
        pass  # the first line stays, which is a title too
    return None
