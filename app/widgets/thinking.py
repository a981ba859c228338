"""The folded thinking above an answer."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.sanitize import clean
from app.widgets import words

SHOWN_CHARACTERS = 20_000


class Thinking(Vertical):
    """`▸ thought for 4 s`; opens to the text. Hidden while there is none."""

    def __init__(self, reasoning: str = "") -> None:
        super().__init__()
        self.reasoning = reasoning
        self.is_open = False
        self._grows = False
        self._seconds: float | None = None
        self._line = Static(markup=False, classes="thinking-line")
        self._text = Static(markup=False, classes="thinking-text")

    def compose(self) -> ComposeResult:
        yield self._line
        yield self._text

    def on_mount(self) -> None:
        self._show()

    def add(self, reasoning: str, seconds: float) -> None:
        """More of it arrived, `seconds` after the answer began."""
        self.reasoning += reasoning
        self._grows, self._seconds = True, seconds
        self._show()

    def end(self) -> None:
        if self._grows:
            self._grows = False
            self._show()

    def toggle(self) -> None:
        self.is_open = not self.is_open
        self._show()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.toggle()

    def label(self) -> str:
        arrow = "▾" if self.is_open else "▸"
        if self._grows:
            return f"{arrow} thinking · {self._seconds or 0:.0f} s"
        if self._seconds is not None:
            return f"{arrow} thought for {self._seconds:.0f} s"
        return f"{arrow} thought · {words.plural(len(self.reasoning), 'character')}"

    def _show(self) -> None:
        self.display = bool(self.reasoning)
        if not self.reasoning or not self.is_mounted:
            return
        self._line.update(Content(self.label()))
        self._text.display = self.is_open
        if self.is_open:
            self._text.update(Content(clean(self.reasoning[-SHOWN_CHARACTERS:])))
