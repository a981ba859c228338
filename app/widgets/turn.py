"""One turn of a conversation as something to select: the common part of question and answer."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message as TextualMessage
from textual.widgets import Static

from app.keys import bindings
from app.sanitize import clean
from app.store.conversation import Message
from app.widgets import words
from app.widgets.extent import settled_extent
from app.widgets.ground import EvenGround
from app.widgets.turn_header import TurnHeader

SHOWN_CHARACTERS = 4_000
SHOWN_LINES = 40
"""Of a question; the rest is a key away, and was sent whole."""
LONGEST_LINE = 1_000


class Turn(Vertical, EvenGround, can_focus=True):
    """A message on screen. The message is the truth; what is drawn may be less."""

    BINDINGS = bindings("turn")
    virtual_size = settled_extent()

    class Acted(TextualMessage):
        """A key of this turn was pressed; the screen owns what happens."""

        def __init__(self, turn: Turn, what: str) -> None:
            super().__init__()
            self.turn = turn
            self.what = what

    def __init__(self, message: Message, name: str, siblings: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.message = message
        self.header = TurnHeader(message.id, name, words.moment(message.created), siblings)
        self.codes_copied = 0
        """How often the code key was pressed here: the next press takes the next block."""

    def action_turn(self, what: str) -> None:
        self.post_message(self.Acted(self, what))

    def fold(self) -> None:
        """Opens or closes what is folded."""


class QuestionTurn(Turn):
    """What the person said, as plain text."""

    def __init__(self, message: Message, siblings: tuple[int, ...] = ()) -> None:
        super().__init__(message, "You", siblings)
        self._is_open = False
        self._text = Static(self._drawn(), classes="question-text", markup=False)

    def compose(self) -> ComposeResult:
        yield self.header
        yield self._text

    def fold(self) -> None:
        self._is_open = not self._is_open
        self._text.update(self._drawn())

    def _drawn(self) -> Content:
        text = clean(self.message.text)
        lines = text.split("\n")
        if self._is_open:
            return Content("\n".join(cut_line(line) for line in lines))
        kept = [
            cut_line(line) for line in "\n".join(lines[:SHOWN_LINES])[:SHOWN_CHARACTERS].split("\n")
        ]
        shown = Content("\n".join(kept))
        if len(lines) <= SHOWN_LINES and len(text) <= SHOWN_CHARACTERS:
            return shown
        rest = words.plural(len(lines), "line") + f" · {len(text):,} characters · space opens"
        return Content.assemble(shown, "\n", (f"… {rest}", "$faint"))


def cut_line(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "…"
