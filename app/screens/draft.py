"""The draft in the prompt: its tokens, whether it fits, and what sending it would do. The prompt's
border says so before anything is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from app import messages as m
from app.widgets import words

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen


class Draft:
    """What is known of the text in the prompt."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen
        self.tokens: int | None = 0
        """None: the engine was too busy to count."""
        self._is_empty = False
        """The person tried to send nothing, and has not typed since."""

    # ---- counting

    def count(self, text: str) -> None:
        """Counts the draft's tokens in a thread."""
        session = self.screen.session
        if not text:
            self.tokens = 0
            self.show_used()
        elif session is not None:
            self.screen.work.in_thread(lambda: m.DraftCounted(text, session.count(text)), "count")

    def counted(self, event: m.DraftCounted) -> None:
        if event.text == self.screen.prompt.whole:
            self.tokens = event.tokens
            self.show_used()

    def count_paste(self, event: m.PasteFolded) -> None:
        session = self.screen.session
        if session is not None:
            label, text = event.label, event.text
            self.screen.work.in_thread(
                lambda: m.PasteCounted(label, session.count(text)), "count-paste"
            )

    def paste_counted(self, event: m.PasteCounted) -> None:
        if event.tokens is not None:
            self.screen.prompt.label_counted(event.label, event.tokens)

    # ---- the prompt's border

    def show_used(self) -> None:
        """`12 tokens · 531 of 8,192 used`, and a warning before the message is too long."""
        loaded, used = self.screen.loaded, self.screen.used_tokens
        parts = []
        if self.tokens is not None:
            parts.append(words.plural(self.tokens, "token"))
        too_long = False
        if loaded is not None:
            parts.append(f"{words.count(used)} of {words.count(loaded.ctx)} used")
            too_long = used + (self.tokens or 0) >= loaded.ctx
        self.screen.prompt.border_subtitle = Content(" · ".join(parts))
        self.show_mode("will not fit: the oldest turns are left out" if too_long else "")

    def show_empty(self, is_empty: bool) -> None:
        """Sending nothing is answered quietly, until the next key."""
        if is_empty != self._is_empty:
            self._is_empty = is_empty
            self.show_used()

    def show_mode(self, warning: str = "") -> None:
        """What sending would do, when it is not the usual."""
        screen = self.screen
        escape = screen.key("chat.stop")
        title = warning
        if self._is_empty:
            title = "nothing to send yet"
        elif screen.answering.pending is not None:
            title = f"sent as soon as the model is ready · {escape} takes it back"
        elif screen.acts.editing is not None:
            title = f"editing an earlier question · {escape} leaves it"
        screen.prompt.border_title = Content(title)
