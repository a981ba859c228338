"""Pages over the conversation: lines to read, a question to answer, a line to type. They know no
session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.sanitize import clean, single_line

Answer = TypeVar("Answer")

Line = tuple[str, str]
"""What it is, and its value; a line with an empty value is a heading."""


class Page(ModalScreen[Answer]):
    """A panel in the middle; escape leaves it without an answer."""

    BINDINGS = [Binding("escape", "leave", "back", show=False)]

    def action_leave(self) -> None:
        self.dismiss(None)


class LinesPage(Page[None]):
    """Names and values to read; it scrolls."""

    BINDINGS = [
        Binding("f1,f2,q,enter", "leave", "back", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
    ]

    def __init__(self, title: str, lines: Iterable[Line]) -> None:
        super().__init__()
        self.title_line = single_line(title, 70)
        self.lines = tuple(lines)

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel")
        panel.border_title = self.title_line
        panel.border_subtitle = "esc back"
        with panel, VerticalScroll(classes="lines", can_focus=False):
            yield Static(self.content(), markup=False)

    def content(self) -> Content:
        """Headings, and names padded to one column."""
        width = min(max((len(name) for name, value in self.lines if value), default=0), 34)
        return Content("\n").join(line_content(name, value, width) for name, value in self.lines)

    def action_scroll(self, rows: int) -> None:
        self.query_one(".lines").scroll_relative(y=rows, animate=False)


def line_content(name: str, value: str, width: int) -> Content:
    if not value:
        return Content.styled(clean(name), "bold $primary")
    indented = clean(value).replace("\n", "\n" + " " * (width + 2))
    return Content.assemble((clean(name).ljust(width) + "  ", "$faint"), indented)


class ConfirmPage(Page[bool]):
    """A question with two answers; the safe one has the focus."""

    BINDINGS = [
        Binding("y", "yes", "yes", show=False),
        Binding("n", "leave", "no", show=False),
    ]

    def __init__(self, question: str, text: str, yes: str, no: str = "Keep it") -> None:
        super().__init__()
        self.question, self.text = clean(question), clean(text)
        self._yes, self._no = yes, no

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel -small")
        panel.border_title = "please confirm"
        with panel:
            yield Static(Content.styled(self.question, "bold"), markup=False)
            yield Static(Content(self.text), markup=False)
            yield Static("")
            yield OptionList(
                Option(Content.assemble(("n  ", "$accent"), self._no), id="no"),
                Option(Content.assemble(("y  ", "$accent"), self._yes), id="yes"),
            )

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_id == "yes")

    def action_yes(self) -> None:
        self.dismiss(True)


class ChoosePage(Page[int]):
    """One of several lines; answers with its number, from 0."""

    def __init__(self, title: str, lines: Iterable[str]) -> None:
        super().__init__()
        self.title_line = single_line(title, 70)
        self.lines = tuple(single_line(line, 200) for line in lines)

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel")
        panel.border_title = self.title_line
        panel.border_subtitle = "enter takes it · esc back"
        with panel:
            yield OptionList(*(Option(Content(line)) for line in self.lines), classes="one-line")

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_index)


class AskPage(Page[str]):
    """One line to type."""

    def __init__(
        self, title: str, hint: str, value: str = "", suggester: Suggester | None = None
    ) -> None:
        super().__init__()
        self.title_line, self._hint, self._value = single_line(title, 70), clean(hint), value
        self._suggester = suggester

    def compose(self) -> ComposeResult:
        panel = Vertical(classes="panel -small")
        panel.border_title = self.title_line
        panel.border_subtitle = "enter takes it · esc leaves it"
        with panel:
            yield Static(Content(self._hint), markup=False)
            yield Input(
                self._value, suggester=self._suggester, select_on_focus=self._suggester is None
            )

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)
