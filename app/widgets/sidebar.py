"""The list of chats, by day, with a search line. It knows summaries, not messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from app.messages import ChatChosen, SearchTyped
from app.sanitize import single_line
from app.store.conversation import ChatSummary
from app.widgets import words

TYPING_S = 0.15
"""Pause in typing after which a search runs."""


class Sidebar(Vertical):
    """Chats, newest first."""

    def __init__(self) -> None:
        super().__init__(id="sidebar")
        self.border_title = "chats"
        self._chats: tuple[ChatSummary, ...] = ()
        self._current: int | None = None
        self._answering: int | None = None
        self._drawn: tuple[object, ...] = ()
        self._search_timer_on = False

    def compose(self) -> ComposeResult:
        yield Input(placeholder="/ search", id="search", compact=True)
        yield OptionList(id="chats", compact=True, markup=False)

    @property
    def query_text(self) -> str:
        return self.query_one("#search", Input).value

    def show(
        self, chats: Sequence[ChatSummary], current: int | None, answering: int | None
    ) -> None:
        """Draws the list, if anything in it changed."""
        today = datetime.now().date()
        drawn = (tuple(chats), current, answering, today)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self._chats, self._current, self._answering = tuple(chats), current, answering
        options = self.query_one("#chats", OptionList)
        place = options.highlighted
        options.clear_options()
        options.add_options(list(self._options()))
        self._highlight(options, place)

    def mark(self, current: int | None, answering: int | None) -> None:
        self.show(self._chats, current, answering)

    def focus_search(self) -> None:
        self.query_one("#search", Input).focus()

    def clear_search(self) -> None:
        self.query_one("#search", Input).value = ""

    def _options(self) -> Iterator[Option]:
        group = ""
        now = datetime.now()
        for chat in self._chats:
            day = words.day_group(chat.updated, now)
            if day != group:
                group = day
                yield Option(Content.styled(day, "$faint"), disabled=True)
            yield Option(self._row(chat), id=f"chat-{chat.id}")
        if not self._chats:
            found = "nothing found" if self.query_text else "no chats yet"
            yield Option(Content.styled(found, "$faint"), disabled=True)

    def _row(self, chat: ChatSummary) -> Content:
        marker = "▸ " if chat.id == self._current else "  "
        title = single_line(chat.title, 60) or "New chat"
        dot = " ●" if chat.id == self._answering else ""
        row = Content.assemble(
            marker, (title, "bold" if chat.id == self._current else ""), (dot, "$accent")
        )
        if chat.snippet:
            row = Content.assemble(row, "\n    ", (single_line(chat.snippet, 60), "$faint"))
        return row

    def _highlight(self, options: OptionList, place: int | None) -> None:
        if self._current is not None and not self.query_text:
            name = f"chat-{self._current}"
            place = next(
                (i for i, option in enumerate(options.options) if option.id == name), place
            )
        if place is not None and options.option_count:
            options.highlighted = min(place, options.option_count - 1)

    @on(Input.Changed, "#search")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if not self._search_timer_on:
            self._search_timer_on = True
            self.set_timer(TYPING_S, self._search)

    def _search(self) -> None:
        self._search_timer_on = False
        self.post_message(SearchTyped(self.query_text))

    @on(Input.Submitted, "#search")
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        if self._chats:
            self.post_message(ChatChosen(self._chats[0].id, self._chats[0].message_id))

    @on(OptionList.OptionSelected, "#chats")
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        chat_id = int((event.option_id or "chat-0").removeprefix("chat-"))
        hit = next((chat for chat in self._chats if chat.id == chat_id), None)
        if hit is not None:
            self.post_message(ChatChosen(hit.id, hit.message_id))
