"""What the keys on a selected turn do: edit, retry, copy, branches, delete, fold."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from app import clipboard
from app import messages as m
from app.screens.page import ConfirmPage
from app.store.draft import KeptDraft, draft_of
from app.widgets.answer import AnswerTurn
from app.widgets.turn import Turn

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.S)


def code_blocks(text: str) -> list[str]:
    """The fenced blocks of a Markdown text, whole, an unclosed last one included."""
    return [match.group(2).removesuffix("\n") for match in FENCE.finditer(text)]


class TurnActs:
    """Acts on turns of the transcript."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen
        self.editing: int | None = None
        """Id of the question whose new version is in the prompt."""
        self._aside = KeptDraft()
        """What stood in the prompt before."""

    # ---- selecting

    def move(self, step: int) -> None:
        """Selects the turn above or below; below the last one is the prompt."""
        turns = self.screen.transcript.turns
        focused = self.screen.focused
        place = (
            turns.index(focused) if isinstance(focused, Turn) and focused in turns else len(turns)
        )
        place = max(place + step, 0)
        if place < len(turns):
            turns[place].focus()
            turns[place].scroll_visible(animate=False)
        else:
            self.screen.prompt.focus()
            self.screen.transcript.anchor()

    # ---- acting

    def act(self, turn: Turn, what: str) -> None:
        if what == "edit":
            self.begin_edit(turn)
        elif what == "retry":
            self.screen.answering.regenerate(turn.message.id)
        elif what == "copy":
            self.copy(text_of(turn))
        elif what == "copy_code":
            self._copy_code(turn)
        elif what == "delete":
            self._ask_delete(turn)
        elif what == "sources":
            self.screen.sources.find(turn.message.id)
        elif what == "fold":
            turn.fold()
        elif what in ("left", "right"):
            self.branch(turn.message.id, -1 if what == "left" else 1)

    def begin_edit(self, turn: Turn) -> None:
        """The question goes into the prompt; an answer's question is meant too."""
        turns = self.screen.transcript.turns
        place = turns.index(turn)
        while place > 0 and turns[place].message.role != "user":
            place -= 1
        question = turns[place].message
        if question.role != "user":
            return
        if self.editing is None:
            self._aside = self.screen.prompt.draft
            self.screen.chats.save_draft(self._aside)
        self.editing = question.id
        self.screen.prompt.set_draft(KeptDraft(question.text))
        self.screen.prompt.focus()
        self.screen.draft.show_mode()
        self.screen.bars.show_footer()

    def leave_edit(self) -> bool:
        """Escape; whether a question was being edited."""
        if self.editing is None:
            return False
        self.editing = None
        self.screen.prompt.clear_draft()
        self.give_back()
        self.screen.draft.show_mode()
        return True

    def give_back(self) -> None:
        """What stood in the prompt before a question was edited, unless something else does now."""
        aside, self._aside = self._aside, KeptDraft()
        if aside.text and not self.screen.prompt.text:
            self.screen.prompt.set_draft(aside)

    def send_edit(self, event: m.Submitted) -> None:
        """The new version is a sibling of the old one."""
        assert self.editing is not None
        if self.screen.answering.edit(self.editing, event.text, event.written, event.attached):
            self.editing = None
            self.screen.chats.save_draft(self._aside)
            self.screen.draft.show_mode()
        else:
            self.screen.prompt.set_draft(draft_of(event.text, event.attached))

    def branch(self, message_id: int, step: int) -> None:
        """Shows the sibling to the left or right."""
        session, run = self.screen.session, self.screen.answering.run
        chat = self.screen.chat
        if session is None or chat is None:
            return
        if run is not None and run.chat_id == chat.id:
            self.screen.tell("Branches can be changed when the answer is over.")
            return

        def select() -> m.ChatOpened | None:
            from app.screens.reader import read_chat

            ids = session.history.siblings(message_id)
            place = ids.index(message_id) + step
            if not 0 <= place < len(ids):
                return None
            session.select(ids[place])
            return m.ChatOpened(read_chat(session, chat.id), keep_place=True)

        self.screen.work.in_store(select)

    # ---- copying

    def copy(self, text: str) -> None:
        """To the clipboard, and which way it took."""
        if not text:
            self.screen.tell("There is nothing to copy.")
            return
        self.screen.app.copy_to_clipboard(text)
        command = clipboard.find_tool(os.environ)
        self.screen.work.in_thread(
            lambda: m.Told(clipboard.describe(text, clipboard.copy_with_tool(text, command))),
            "clipboard",
        )

    def _copy_code(self, turn: Turn) -> None:
        blocks = code_blocks(text_of(turn))
        if not blocks:
            self.screen.tell("There is no code block in this turn.")
            return
        number = turn.codes_copied % len(blocks)
        turn.codes_copied += 1
        self.copy(blocks[number])
        if len(blocks) > 1:
            self.screen.tell(f"Code block {number + 1} of {len(blocks)}; again for the next.")

    # ---- deleting

    def _ask_delete(self, turn: Turn) -> None:
        session, chat, run = self.screen.session, self.screen.chat, self.screen.answering.run
        if session is None or chat is None:
            return
        if run is not None and run.chat_id == chat.id:
            self.screen.tell("This chat is being answered.")
            return
        message_id = turn.message.id
        self.screen.work.in_store(
            lambda: m.DeleteAsked(message_id, session.history.subtree_count(message_id))
        )

    def ask_delete(self, event: m.DeleteAsked) -> None:
        """Says how much would go."""
        others = event.count - 1
        follow = f" and the {others:,} below it" if others else ""
        page = ConfirmPage(
            f"Delete this message{follow}?", "This cannot be undone.", "Delete for good"
        )
        self.screen.app.push_screen(
            page, lambda yes: self._delete(event.message_id) if yes else None
        )

    def _delete(self, message_id: int) -> None:
        session, chat = self.screen.session, self.screen.chat
        if session is None or chat is None:
            return

        def delete() -> m.ChatOpened:
            from app.screens.reader import read_chat

            session.history.delete_subtree(message_id)
            return m.ChatOpened(read_chat(session, chat.id), keep_place=True)

        self.screen.work.in_store(delete)


def text_of(turn: Turn) -> str:
    """The whole text, not what is drawn of it."""
    return turn.text if isinstance(turn, AnswerTurn) else turn.message.text
