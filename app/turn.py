"""One running answer: engine events in, rows on disk and session events out.

It journals what has arrived at the first words and then each second, and ends the row whatever
happens: a stop, a limit, an error, a dead engine, or a front end that goes away. It knows neither
how a model was chosen nor what is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from app.errors import to_error_info
from app.grounding import Found, Searching
from app.knowledge.citations import check
from app.knowledge.cited_text import CitedText, known_only
from app.store.conversation import AnswerInfo, Message, Status
from app.store.history import History
from app.store.rows import Cited
from engine.client import EngineClient
from engine.errors import LocalchatError
from engine.events import Delta, ErrorInfo, Event, Failed, Finished, PromptProgress, Result, Started

JOURNAL_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Saved:
    """The question and the empty answer are on disk; the engine is asked next."""

    chat_id: int
    user_message_id: int
    message_id: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer has ended and is on disk; `message` is all of it, `result` what this run added."""

    message: Message
    result: Result
    chat_id: int
    user_message_id: int
    message_id: int


TurnEvent = Searching | Found | Event
"""What happens on the way to an answer: documents are looked for, then the engine works."""
SessionEvent = Saved | Searching | Found | Started | PromptProgress | Delta | Answered | Failed

STATUS_OF: dict[str, Status] = {
    "stop": "complete",
    "length": "cut",
    "context": "cut",
    "cancelled": "stopped",
    "error": "error",
}
"""How an answer's row ends, by the engine's finish reason."""


@dataclass(slots=True)
class Progress:
    """Text and ids of an answer, or of a part of it."""

    text: str = ""
    reasoning: str = ""
    ids: tuple[int, ...] = ()

    def add(self, delta: Delta) -> None:
        self.text += delta.text
        self.reasoning += delta.reasoning
        self.ids += delta.ids


class Turn:
    """Runs one request and keeps its row true. Use once.

    Where documents were found, citations are checked: numbers without a document are never shown,
    nor is the mark of the documents' fences.
    """

    def __init__(
        self,
        history: History,
        client: EngineClient,
        saved: Saved,
        info: AnswerInfo,
        so_far: Message | None = None,
        clock: Callable[[], float] = time.monotonic,
        notices: tuple[str, ...] = (),
    ) -> None:
        """`notices`: what a person should know of the question, told with the answer."""
        self._history = history
        self._client = client
        self.saved = saved
        self._info = info
        self._clock = clock
        self._notices = notices
        self._progress = Progress()
        self._keeps_ids = True
        self._before = Progress()
        if so_far is not None:
            # Ids of another vocabulary mean nothing here: the engine then tokenises the text again.
            self._keeps_ids = so_far.tokenizer == info.tokenizer
            text = so_far.said or so_far.text
            self._before = Progress(text, so_far.reasoning, so_far.ids)
        self._found: Found | None = None
        self._cited = CitedText(0)
        self._journalled_at: float | None = None
        self._ended = False

    def run(
        self, request_id: str, events: Iterator[TurnEvent], cancel_wanted: Callable[[], bool]
    ) -> Iterator[SessionEvent]:
        """From Saved to Answered or Failed. Closing the iterator stops the answer, text kept.

        `events` end early where the answer was cancelled before the engine was asked.
        """
        try:
            yield self.saved
            if cancel_wanted():
                yield self._finish(_nothing(self._info))
                return
            for event in events:
                yield from self._handle(event)
                if self._ended:
                    return
                if cancel_wanted():
                    self._client.cancel(request_id)
            yield self._finish(_nothing(self._info))
        except (LocalchatError, OSError) as error:
            self._abandon(request_id, to_error_info(error))
            raise
        finally:
            if not self._ended:
                self._abandon(request_id, None)

    def _handle(self, event: TurnEvent) -> Iterator[SessionEvent]:
        if isinstance(event, Finished):
            if rest := self._cited.end():
                yield Delta(event.request_id, (), rest, "")
            yield self._finish(event.result)
        elif isinstance(event, Failed):
            if rest := self._cited.end():
                yield Delta(event.request_id or "", (), rest, "")
            self._fail(event)
            yield event
        elif isinstance(event, Delta):
            self._progress.add(event)
            self._journal()
            yield replace(event, text=self._shown_of(event.text))
        else:
            if isinstance(event, Found):
                self._found = event
                self._notices += event.sources.notices
                self._cited = CitedText(len(event.passages), event.sources.mark)
            yield event

    def _shown_of(self, arrived: str) -> str:
        """What can be shown of new text: all of it, or all but a citation that is half there."""
        return self._cited.add(arrived) if self._checks else arrived

    @property
    def _checks(self) -> bool:
        return self._found is not None and bool(self._found.passages)

    def _shown(self, text: str) -> str:
        """A text of the model as a person may read it."""
        if self._found is None or not self._checks:
            return text
        return known_only(text, len(self._found.passages), self._found.sources.mark)

    def _journal(self) -> None:
        now = self._clock()
        if self._journalled_at is None or now - self._journalled_at >= JOURNAL_EVERY_S:
            whole = self._whole(self._progress)
            text = self._shown(whole.text)
            self._history.journal(self.saved.message_id, text, whole.reasoning, whole.ids)
            self._journalled_at = now

    def _finish(self, result: Result) -> Answered:
        result = replace(result, notices=(*self._notices, *result.notices))
        message = self._end(
            STATUS_OF[result.finish_reason], with_result(self._info, result), result
        )
        saved = self.saved
        result = replace(result, text=self._shown(result.text))
        return Answered(message, result, saved.chat_id, saved.user_message_id, saved.message_id)

    def _fail(self, event: Failed) -> None:
        info = replace(self._info, finish_reason="error", error=event.cause)
        if event.result is not None:
            info = replace(with_result(info, event.result), finish_reason="error")
        self._end(self._status_of_a_failure(), info, event.result)

    def _abandon(self, request_id: str, error: ErrorInfo | None) -> None:
        """The front end went away in the middle (None), or the engine or the disk refused."""
        self._client.cancel(request_id)
        if error is None:
            self._end("cut", self._info, None)
        else:
            info = replace(self._info, finish_reason="error", error=error)
            self._end(self._status_of_a_failure(), info, None)

    def _status_of_a_failure(self) -> Status:
        whole = self._whole(self._progress)
        return "cut" if whole.text or whole.reasoning else "error"

    def _end(self, status: Status, info: AnswerInfo, result: Result | None) -> Message:
        self._ended = True
        new = self._progress
        if result is not None:
            new = Progress(result.text, result.reasoning, result.token_ids)
        whole = self._whole(new)
        text = self._shown(whole.text)
        return self._history.finish_answer(
            self.saved.message_id,
            status=status,
            text=text,
            reasoning=whole.reasoning,
            ids=whole.ids,
            info=info,
            cited=self._citations(text, whole.text),
        )

    def _citations(self, shown: str, said: str) -> Cited | None:
        found = self._found
        if found is None or not found.passages:
            return None
        citations = check(shown, found.question, found.passages)
        return Cited(citations, said if said != shown else "")

    def _whole(self, new: Progress) -> Progress:
        """The row's full content: what was there before this run, and what this run added."""
        before = self._before
        return Progress(
            before.text + new.text,
            before.reasoning + new.reasoning,
            before.ids + new.ids if self._keeps_ids else (),
        )


def with_result(info: AnswerInfo, result: Result) -> AnswerInfo:
    return replace(
        info,
        kv_type=result.kv_type,
        seed=result.seed,
        finish_reason=result.finish_reason,
        usage=result.usage,
        timings=result.timings,
        reuse_break=result.reuse_break,
        reasoning_unfinished=result.reasoning_unfinished,
        notices=result.notices,
    )


def _nothing(info: AnswerInfo) -> Result:
    """Stopped before the engine was asked."""
    return Result("", "", (), "cancelled", seed=info.seed or 0, kv_type=info.kv_type)
