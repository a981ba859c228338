"""What the draft of a slash command may become, shown above the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import messages as m
from app.slash import completions
from app.themes import NAMES
from app.widgets.bars import Completions
from app.widgets.prompt import Prompt

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen


class Completing:
    """Names of knowledge bases are read in a thread when a draft begins to need them."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen
        self._needs_bases = False
        self._bases: tuple[str, ...] = ()

    def typed(self) -> None:
        needs_bases = self.screen.prompt.text.startswith("/kb")
        if needs_bases and not self._needs_bases:
            self._read_bases()
        self._needs_bases = needs_bases
        self._show()

    def named(self, event: m.BasesNamed) -> None:
        self._bases = event.names
        self._show()

    def hide(self) -> None:
        self.screen.query_one(Completions).show(())

    def _show(self) -> None:
        # Both are gone before their screen when the program ends.
        for prompt in self.screen.query(Prompt):
            prompt.arguments = {"kb": self._bases, "theme": tuple(NAMES)}
            for shown in self.screen.query(Completions):
                shown.show(completions(prompt.text, prompt.arguments))

    def _read_bases(self) -> None:
        session = self.screen.stored_session
        if session is not None:
            self.screen.work.in_thread(
                lambda: m.BasesNamed(tuple(session.knowledge.all.names())), "names"
            )
