"""Chats: open, new, search, delete with undo, drafts; the list on the left. Store work runs in the
store's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.timer import Timer
from textual.widgets import OptionList

from app import messages as m
from app.screens.page import ConfirmPage
from app.screens.reader import read_chat
from app.widgets.bars import UndoBar
from app.widgets.sidebar import Sidebar

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen
    from app.session import Session
    from app.store.conversation import Chat
    from app.store.draft import KeptDraft

STALE_DELETES_S = 15.0
"""Deletions left by a program that died are finished this long after the start: another program may
still undo its own.
"""


class ChatList:
    """What the chat screen does with chats."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen
        self._version: int | None = None
        self._is_narrow: bool | None = None
        self._is_listing = False
        self._list_again = False
        self._deleted: Chat | None = None
        self._undo_timer: Timer | None = None
        self._is_polling = False

    # ---- the list itself

    @property
    def sidebar(self) -> Sidebar:
        return self.screen.query_one(Sidebar)

    def fold(self, is_narrow: bool) -> None:
        """On a narrow screen the list is away until asked for."""
        if is_narrow != self._is_narrow:
            self._is_narrow = is_narrow
            self.sidebar.display = not is_narrow

    def toggle(self) -> None:
        if self.sidebar.display:
            self._hide()
        else:
            self.sidebar.display = True
            self.sidebar.query_one(OptionList).focus()

    def _hide(self) -> None:
        self.sidebar.display = False
        self.screen.prompt.focus()

    def search(self) -> None:
        self.sidebar.display = True
        self.sidebar.focus_search()

    def close_overlay(self) -> bool:
        """Escape in the list: the search ends, a list over the transcript goes; whether anything
        did.
        """
        focused = self.screen.focused
        inside = focused is not None and self.sidebar in focused.ancestors
        if not inside:
            return False
        self.sidebar.clear_search()
        if self._is_narrow:
            self.sidebar.display = False
        self.screen.prompt.focus()
        return True

    def mark(self) -> None:
        """Draws again which chat is open and which is being answered."""
        chat, run = self.screen.chat, self.screen.answering.run
        self.sidebar.mark(chat.id if chat else None, run.chat_id if run else None)

    def refresh(self) -> None:
        session = self.screen.stored_session
        if session is None:
            return
        if self._is_listing:
            self._list_again = True
            return
        self._is_listing = True
        query = self.sidebar.query_text
        self.screen.work.in_store(
            lambda: m.ChatsListed(tuple(session.history.chats(query or None)), query)
        )

    def listed(self, event: m.ChatsListed) -> None:
        self._is_listing = False
        chat, run = self.screen.chat, self.screen.answering.run
        self.sidebar.show(event.chats, chat.id if chat else None, run.chat_id if run else None)
        if self._list_again:
            self._list_again = False
            self.refresh()

    def poll(self) -> None:
        """Has another process changed the chats?"""
        session = self.screen.stored_session
        if session is None or self._is_polling:
            return
        self._is_polling = True
        self.screen.work.in_store(lambda: self._look(session))

    def _look(self, session: Session) -> m.ChatsChanged | None:
        """In the store's thread, which never waits for the screen."""
        try:
            version = session.history.data_version()
        finally:
            self._is_polling = False
        if version == self._version:
            return None
        self._version = version
        return m.ChatsChanged()

    # ---- opening

    def open_first(self) -> None:
        """After the start: an empty chat, its draft, and the list."""
        session = self.screen.session
        assert session is not None
        self.refresh()
        self.screen.work.in_store(lambda: m.DraftRestored(session.history.draft(None)))
        self.screen.set_timer(STALE_DELETES_S, lambda: self._finish_old_deletes(session))

    def choose(self, event: m.ChatChosen) -> None:
        session = self.screen.stored_session
        if session is None:
            return
        if self._is_narrow:
            self.sidebar.display = False
        self.sidebar.clear_search()
        self.leave_private()
        self._keep_draft()
        if event.message_id is None:
            self.screen.work.in_store(lambda: m.ChatOpened(read_chat(session, event.chat_id)))
        else:
            found = event.message_id
            self.screen.work.in_store(lambda: self._open_at(session, event.chat_id, found))
        self.screen.prompt.focus()

    @staticmethod
    def _open_at(session: Session, chat_id: int, message_id: int) -> m.ChatOpened:
        if message_id not in [message.id for message in session.history.path(chat_id)]:
            session.select(message_id)
        return m.ChatOpened(read_chat(session, chat_id))

    def reopen(self) -> None:
        """The open chat again, after its branches changed."""
        session, chat = self.screen.session, self.screen.chat
        if session is not None and chat is not None:
            self.screen.work.in_store(
                lambda: m.ChatOpened(read_chat(session, chat.id), keep_place=True)
            )

    async def opened(self, event: m.ChatOpened) -> None:
        screen, view = self.screen, event.view
        screen.chat = view.chat
        answers = [one.info for one in view.path if one.info is not None]
        usage = answers[-1].usage if answers else None
        screen.used_tokens = usage.prompt_tokens + usage.completion_tokens if usage else 0
        screen.overlays.hide_page() if view.path else screen.overlays.show_empty()
        await screen.transcript.show(view.path, view.siblings)
        if not event.keep_place:
            screen.knowledge.follow(view.path)
            screen.acts.leave_edit()
            screen.prompt.set_draft(view.draft)
            screen.draft.count(view.draft.text)
        screen.bars.show_title()
        screen.draft.show_used()
        self.mark()
        await screen.answering.resume_view()

    def new_chat(self) -> None:
        """An empty chat; it is stored with its first message."""
        self._keep_draft()
        self.leave_private()
        self.empty(None)
        session = self.screen.session
        if session is not None:
            self.screen.work.in_store(lambda: m.DraftRestored(session.history.draft(None)))

    def empty(self, chat: Chat | None) -> None:
        screen = self.screen
        screen.acts.leave_edit()
        screen.chat = chat
        screen.used_tokens = 0
        screen.prompt.clear_draft()
        screen.run_worker(screen.transcript.show((), {}), group="transcript")
        screen.overlays.show_empty()
        screen.bars.show_title()
        screen.draft.show_used()
        self.mark()
        screen.prompt.focus()

    def leave_private(self) -> None:
        """Chats in memory end with their page."""
        screen = self.screen
        if screen.session is not screen.stored_session:
            private = screen.session
            screen.session = screen.stored_session
            if private is not None:
                screen.work.in_thread(private.forget, "private")

    def enter_private(self) -> None:
        screen = self.screen
        if screen.stored_session is None:
            return
        self._keep_draft()
        screen.session = screen.stored_session.private_twin()
        self.empty(None)

    # ---- drafts

    def save_draft(self, draft: KeptDraft) -> None:
        session, chat = self.screen.session, self.screen.chat
        chat_id = chat.id if chat else None
        if session is not None and self.screen.acts.editing is None:
            self.screen.work.in_store(lambda: session.history.save_draft(chat_id, draft))

    def _keep_draft(self) -> None:
        self.save_draft(self.screen.prompt.draft)

    # ---- deleting

    @property
    def can_undo(self) -> bool:
        return self._deleted is not None

    def delete(self) -> None:
        screen = self.screen
        chat, run = screen.chat, screen.answering.run
        if chat is None:
            screen.tell("This chat is empty; there is nothing to delete.")
        elif run is not None and run.chat_id == chat.id:
            screen.tell(f"This chat is being answered. {screen.key('chat.stop')} stops it.")
        else:
            question = f"Delete “{chat.title or 'New chat'}”?"
            text = f"All its branches go. {screen.key('chat.undo')} brings it back for 10 seconds."
            screen.app.push_screen(
                ConfirmPage(question, text, "Delete the chat"),
                lambda yes: self._delete(chat) if yes else None,
            )

    def _delete(self, chat: Chat) -> None:
        screen = self.screen
        session = screen.session
        if session is None:
            return
        self._finish_delete()
        if session is not screen.stored_session:
            screen.work.in_store(lambda: session.purge(chat.id))
            self.empty(None)
            return
        self._deleted = chat
        screen.work.in_store(lambda: session.delete(chat.id))
        self.empty(None)
        self.refresh()
        left = UndoBar.SECONDS
        screen.query_one(UndoBar).show(chat.title, screen.key("chat.undo"), left)
        self._undo_timer = screen.set_interval(1.0, self._count_down)

    def _count_down(self) -> None:
        bar = self.screen.query_one(UndoBar)
        if self._deleted is not None and bar.left > 1:
            bar.show(self._deleted.title, self.screen.key("chat.undo"), bar.left - 1)
        else:
            self._finish_delete()

    def _finish_delete(self) -> None:
        """The time for undoing is over: the text is really gone."""
        chat = self._end_undo()
        session = self.screen.stored_session
        if chat is not None and session is not None:
            self.screen.work.in_store(lambda: session.purge(chat.id))

    def undo(self) -> None:
        chat = self._end_undo()
        session = self.screen.stored_session
        if chat is not None and session is not None:
            self.screen.work.in_store(lambda: self._bring_back(session, chat.id))
            self.refresh()

    @staticmethod
    def _bring_back(session: Session, chat_id: int) -> m.ChatOpened:
        session.undo_delete(chat_id)
        return m.ChatOpened(read_chat(session, chat_id))

    def _end_undo(self) -> Chat | None:
        chat, self._deleted = self._deleted, None
        if self._undo_timer is not None:
            self._undo_timer.stop()
            self._undo_timer = None
        self.screen.query_one(UndoBar).show("", "", 0)
        return chat

    def _finish_old_deletes(self, session: Session) -> None:
        mine = self._deleted.id if self._deleted else None

        def purge() -> None:
            for chat in session.history.pending_deletes():
                if chat.id != mine:
                    session.purge(chat.id)

        self.screen.work.in_store(purge)

    def close(self) -> None:
        """The program ends: the draft is kept, a deletion is completed."""
        self._keep_draft()
        self._finish_delete()
