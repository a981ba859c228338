"""Shows one answer on a plain console while it comes, and says how it ended.

People get the text, a line about reading, and notices; programs get one JSON object. It decides
the exit status of an answer and nothing else.
"""

from __future__ import annotations

from contextlib import closing

from app.console import Console
from app.exit_codes import exit_code
from app.interrupt import Interruption
from app.knowledge.places import source_lines
from app.result import error_object, result_object
from app.session import Answered, Events, Saved, Searching, Session, SessionEvent
from engine.events import Delta, ErrorInfo, Failed, PromptProgress


class Answering:
    """One front end's way to show answers; `interrupted` after a ctrl+c."""

    def __init__(self, session: Session, console: Console, as_json: bool) -> None:
        self._session = session
        self._console = console
        self._as_json = as_json
        self._thinking = False
        self._text_shown = False
        self.interrupted = False
        self.answered: Answered | None = None
        self.chat_id: int | None = None
        """The chat that was answered, as soon as its question is on disk."""

    def show(self, events: Events) -> int:
        """Runs to the end of the answer; the exit status of the answer."""
        status = 0
        # Closed here and not by chance: a front end that fails leaves a row that is finished.
        with closing(events), Interruption(self._session.cancel) as interruption:
            for event in events:
                status = self._take(event)
        self.interrupted = interruption.asked
        return exit_code("interrupted") if self.interrupted else status

    def _take(self, event: SessionEvent) -> int:
        if isinstance(event, Saved):
            self.chat_id = event.chat_id
        if isinstance(event, Failed):
            self._fail(event.cause)
            return exit_code(event.cause.code)
        if isinstance(event, Answered):
            self._end(event)
        elif not self._as_json:
            self._show(event)
        return 0

    def _show(self, event: SessionEvent) -> None:
        if isinstance(event, Delta):
            self._show_delta(event)
        elif isinstance(event, PromptProgress):
            self._console.status(reading(event))
        elif isinstance(event, Searching):
            self._console.status(event.text)

    def _show_delta(self, delta: Delta) -> None:
        if delta.reasoning and not self._thinking:
            self._thinking = True
            self._console.status("thinking …")
        if delta.text:
            self._console.clear_status()
            self._console.write(delta.text)
            self._text_shown = True

    def _end(self, event: Answered) -> None:
        self.answered = event
        loaded = self._session.loaded
        if self._as_json and loaded is not None:
            self._console.json(
                result_object(
                    event.result,
                    loaded,
                    chat_id=event.chat_id,
                    user_message_id=event.user_message_id,
                    message_id=event.message_id,
                    citations=event.message.citations,
                )
            )
            told = event.result.notices
        else:
            self._console.clear_status()
            self._console.end_text()
            sources = source_lines(event.message.citations)
            told = (*sources, *event.result.notices, *ending(event))
        for text in told:
            self._console.note_faint(text)

    def _fail(self, cause: ErrorInfo) -> None:
        if self._text_shown:
            self._console.end_text()
        if self._as_json:
            self._console.json(error_object(cause))
        self._console.error(cause)


def reading(event: PromptProgress) -> str:
    percent = 100 * event.done // max(event.total, 1)
    text = f"reading {percent} % · {event.done:,} of {event.total:,} tokens"
    if event.tokens_per_s > 0:
        seconds = (event.total - event.done) / event.tokens_per_s
        text += f" · {seconds:.0f} s left"
    return text


def ending(event: Answered) -> tuple[str, ...]:
    """What a person should know of an answer that did not simply stop."""
    result = event.result
    words = {
        "length": f"cut at {len(result.token_ids):,} tokens",
        "context": "cut: the context window is full",
        "cancelled": "stopped",
        "error": "ended by an error",
    }
    said = words.get(result.finish_reason)
    return (said,) if said else ()
