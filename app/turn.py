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
from app.store.conversation import AnswerInfo, Message, Status
from app.store.history import History
from engine.client import EngineClient
from engine.errors import LocalchatError
from engine.events import Delta, ErrorInfo, Event, Failed, Finished, PromptProgress, Result, Started
from engine.messages import Submit

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


SessionEvent = Saved | Started | PromptProgress | Delta | Answered | Failed

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
    """Runs one submit and keeps its row true. Use once."""

    def __init__(
        self,
        history: History,
        client: EngineClient,
        saved: Saved,
        info: AnswerInfo,
        so_far: Message | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._history = history
        self._client = client
        self._saved = saved
        self._info = info
        self._clock = clock
        self._progress = Progress()
        self._keeps_ids = True
        self._before = Progress()
        if so_far is not None:
            # Ids of another vocabulary mean nothing here: the engine then tokenises the text again.
            self._keeps_ids = so_far.tokenizer == info.tokenizer
            self._before = Progress(so_far.text, so_far.reasoning, so_far.ids)
        self._journalled_at: float | None = None
        self._ended = False

    def run(self, submit: Submit, cancel_wanted: Callable[[], bool]) -> Iterator[SessionEvent]:
        """From Saved to Answered or Failed. Closing the iterator stops the answer, text kept."""
        try:
            yield self._saved
            if cancel_wanted():
                yield self._finish(_nothing(self._info))
                return
            for event in self._client.submit(submit):
                yield from self._handle(event)
                if self._ended:
                    return
                if cancel_wanted():
                    self._client.cancel(submit.request_id)
        except (LocalchatError, OSError) as error:
            self._abandon(submit.request_id, to_error_info(error))
            raise
        finally:
            if not self._ended:
                self._abandon(submit.request_id, None)

    def _handle(self, event: Event) -> Iterator[SessionEvent]:
        if isinstance(event, Finished):
            yield self._finish(event.result)
        elif isinstance(event, Failed):
            self._fail(event)
            yield event
        else:
            if isinstance(event, Delta):
                self._progress.add(event)
                self._journal()
            yield event

    def _journal(self) -> None:
        now = self._clock()
        if self._journalled_at is None or now - self._journalled_at >= JOURNAL_EVERY_S:
            whole = self._whole(self._progress)
            self._history.journal(self._saved.message_id, whole.text, whole.reasoning, whole.ids)
            self._journalled_at = now

    def _finish(self, result: Result) -> Answered:
        message = self._end(
            STATUS_OF[result.finish_reason], with_result(self._info, result), result
        )
        saved = self._saved
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
        return self._history.finish_answer(
            self._saved.message_id,
            status=status,
            text=whole.text,
            reasoning=whole.reasoning,
            ids=whole.ids,
            info=info,
        )

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
