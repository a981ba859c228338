"""The title above the conversation and the line of keys below it: when what they say has changed,
they are told here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.keys import of_group
from app.widgets.bars import Footer, TitleBar
from app.widgets.turn import Turn

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen


class Bars:
    """Reads the state of the chat screen, and changes none of it. When the program ends the bars go
    before their screen: what comes then is shown nowhere.
    """

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen

    def show_title(self) -> None:
        screen = self.screen
        private = "private · " if screen.session is not screen.stored_session else ""
        for bar in screen.query(TitleBar):
            bar.chat_title = private + (screen.chat.title if screen.chat else "")
            bar.documents = screen.knowledge.name or ""
            bar.model = screen.loader.words()

    def show_footer(self) -> None:
        screen = self.screen
        self.show_documents()
        keys = [key for key in (*of_group("chat"), *of_group("anywhere")) if key.footer]
        if isinstance(screen.focused, Turn):
            keys = [key for key in of_group("turn") if key.footer]
        elif not (screen.answering.run or screen.loader.is_running or screen.answering.pending):
            keys = [key for key in keys if key.id != "chat.stop"]
        for footer in screen.query(Footer):
            footer.keys = tuple(keys)

    def show_documents(self) -> None:
        for footer in self.screen.query(Footer):
            footer.documents = self.screen.knowledge.words()

    def show_engine(self) -> None:
        """Its memory, and what it does besides answering."""
        session = self.screen.stored_session
        state = session.client.state if session is not None else None
        for footer in self.screen.query(Footer):
            footer.state = state
            footer.engine = "tuning" if state is not None and state.tuning else ""
