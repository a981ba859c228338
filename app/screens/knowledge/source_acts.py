"""What the chat screen does with sources: those of an answer, a passage in its document, the files
of a base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import messages as m
from app.errors import in_one_line, to_error_info
from app.knowledge.passage import Passage
from app.knowledge.source_view import SourceView, alone, beginning, in_document
from app.screens.knowledge.files import FilesPage
from app.screens.knowledge.source import SourcePage
from app.screens.knowledge.sources import AnswerSources, SourcesPage
from app.widgets.turn import Turn
from engine.errors import LocalchatError

if TYPE_CHECKING:
    from app.knowledge.states import FileState
    from app.screens.chat import ChatScreen
    from app.session import Session

AS_READ = "This is the passage as it was read."
NO_SOURCES = "This turn has no sources: no documents were asked."


class SourceActs:
    """Everything is read in threads; only what an index or a chat holds is opened."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen

    # ---- of an answer

    def show(self) -> None:
        """Of the selected turn, else of the last answer."""
        focused = self.screen.focused
        turn = focused if isinstance(focused, Turn) else self.screen.transcript.last_answer
        if turn is None:
            self.screen.tell("There is no answer yet.")
        else:
            self.find(turn.message.id)

    def find(self, message_id: int, number: int = 0) -> None:
        """The documents of a turn; with a number that passage is opened at once."""
        session = self.screen.session
        if session is None:
            return

        def read() -> m.SourcesFound | m.Told:
            shown = answer_sources(session, message_id)
            return m.Told(NO_SOURCES) if shown is None else m.SourcesFound(shown, number)

        self.screen.work.in_store(read)

    def found(self, event: m.SourcesFound) -> None:
        shown = event.shown
        passage = shown.passage(event.number)
        if passage is not None:
            self.open(shown.sources.base, passage)
            return
        page = SourcesPage(shown, lambda passage: self.open(shown.sources.base, passage))
        self.screen.app.push_screen(page)

    def open(self, base: str, passage: Passage) -> None:
        """A passage in its document."""
        session = self.screen.session
        if session is None:
            return
        page = SourcePage(passage.place)
        self.screen.app.push_screen(page)

        def read() -> None:
            page.post_message(m.SourceRead(source_view(session, base, passage)))

        self.screen.work.in_thread(read, "source")

    # ---- of a base

    def show_files(self, name: str) -> None:
        session = self.screen.stored_session
        if session is None:
            return
        page = FilesPage(name, lambda file: self.open_file(name, file))
        self.screen.app.push_screen(page)

        def read() -> None:
            try:
                listed = m.FilesListed(tuple(session.base(name).files()))
            except (LocalchatError, OSError) as error:
                listed = m.FilesListed((), in_one_line(to_error_info(error)))
            page.post_message(listed)

        self.screen.work.in_thread(read, "files")

    def open_file(self, name: str, file: FileState) -> None:
        session = self.screen.stored_session
        if session is None:
            return
        if not file.chunks:
            self.screen.tell(f"{file.name}: {file.state}. There is nothing to show of it.")
            return
        page = SourcePage(file.name)
        self.screen.app.push_screen(page)

        def read() -> None:
            try:
                view = beginning(file, session.base(name).index)
            except (LocalchatError, OSError) as error:
                view = SourceView(file.name, "", notices=(in_one_line(to_error_info(error)),))
            page.post_message(m.SourceRead(view))

        self.screen.work.in_thread(read, "source")


def answer_sources(session: Session, message_id: int) -> AnswerSources | None:
    """The documents of a question or of an answer to it; None where it has none."""
    from app.grounding import cited_passages

    history = session.history
    message = history.message(message_id)
    question = message
    if message.role == "assistant" and message.parent_id is not None:
        question = history.message(message.parent_id)
    if question.sources is None:
        return None
    passages = cited_passages(history.path(question.chat_id, question.id))
    return AnswerSources(question.sources, passages, message.citations)


def source_view(session: Session, base: str, passage: Passage) -> SourceView:
    """In its document where the base still has it; attached text has no other place."""
    if not base:
        return alone(passage)
    try:
        return in_document(passage, session.base(base).index)
    except (LocalchatError, OSError) as error:
        return alone(passage, in_one_line(to_error_info(error)), AS_READ)
