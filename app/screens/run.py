"""The one running answer: its generator runs in a thread, its events become messages of the screen.

It holds what has arrived, so that a chat can be left and opened again while it is answered. It
draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Literal

from textual.message import Message as TextualMessage

from app.messages import AnswerEnded, AnswerEvent
from app.screens.reader import read_begun
from engine.events import Delta, Started

if TYPE_CHECKING:
    from app.attached import Attachment
    from app.session import Session, SessionEvent

Kind = Literal["send", "edit", "regenerate", "continue"]

PROGRESS_FROM = 1_024
"""Prompts with less to read show no progress."""


@dataclass
class Run:
    """An answer on its way. The screen owns it; the thread only posts."""

    kind: Kind
    session: Session
    text: str
    """What the person sent; comes back into the prompt when it could not be stored."""
    attached: tuple[Attachment, ...] = ()
    """What of it was pasted or attached."""
    edited: int | None = None
    """The question that `text` is a new version of."""
    chat_id: int | None = None
    answer_id: int | None = None
    arrived: str = ""
    reasoning: str = ""
    to_read: int = 0
    has_failed: bool = False
    over: Event = field(default_factory=Event)
    """Set by the thread when the answer is stored."""

    @property
    def is_stored(self) -> bool:
        return self.answer_id is not None

    @property
    def shows_progress(self) -> bool:
        return self.to_read >= PROGRESS_FROM

    def take(self, event: Started | Delta) -> None:
        if isinstance(event, Started):
            self.to_read = event.prompt_tokens - event.reused_tokens - event.restored_tokens
        else:
            self.arrived += event.text
            self.reasoning += event.reasoning


def pump(
    run: Run, events: Iterator[SessionEvent], post: Callable[[TextualMessage], object]
) -> None:
    """Runs in a thread until the answer is over."""
    from app.session import Saved

    try:
        for event in events:
            if isinstance(event, Saved):
                begun = read_begun(
                    run.session, event.chat_id, event.user_message_id, event.message_id
                )
                post(begun)
            post(AnswerEvent(event))
    finally:
        run.over.set()
        post(AnswerEnded())
