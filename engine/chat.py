"""Messages -> requests: the prompt's ids with names for its parts, the sampling, the length.

The one place above the engine where text becomes ids. Knows one model's formatter and tokenizer,
and
neither the pipe, the cache nor a screen. One thread prepares; `count` may be called from any.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from engine.canonical import stable_prefix
from engine.conversation_fit import Fit, fit
from engine.errors import ContextTooLong, UsageError
from engine.events import Result
from engine.fitting import least_room
from engine.messages import ChatMessage, SamplingOverrides, Submit
from engine.request import Limits, Part, Priority, Request, Sampling
from engine.titles import INSTRUCTION
from engine.titles import MAX_TOKENS as TITLE_TOKENS
from models.templates.formatter import ChatFormatter, FormatOptions
from models.templates.kept_ids import KeptIds
from models.templates.prompt import PromptIds
from models.templates.thinking import left_open
from models.templates.turns import Turn


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request, and what has to be done to its result."""

    request: Request
    kind: str
    """answer, continue, title, aside, judge, pin or canonical."""
    notices: tuple[str, ...] = ()
    stops_early: bool = False
    """Reaching `max_tokens` counts as cancelled."""
    seed_given: bool = False
    submit: Submit | None = None


class Chat:
    """`context`: tokens of prompt and answer together. `defaults`: the model's sampling."""

    def __init__(
        self,
        formatter: ChatFormatter,
        context: int,
        defaults: Sampling,
        draw_seed: Callable[[], int] = lambda: secrets.randbits(31),
        exact: bool = True,
    ) -> None:
        """`exact`: a prompt's KV does not depend on how it was cut, so rewriting is worth it."""
        self._exact = exact
        self._formatter = formatter
        self._tokenizer = formatter.tokenizer
        self._context = context
        self._defaults = defaults
        self._draw_seed = draw_seed
        self._told: set[tuple[str, str]] = set()

    def count(self, text: str) -> int:
        """Tokens of a text by itself."""
        return len(self._tokenizer.encode(text))

    def stop(self) -> None:
        """From any thread: give up what is being prepared, and all of it until `resume`."""
        self._formatter.stop()

    def resume(self) -> None:
        self._formatter.resume()

    def prepare(self, submit: Submit) -> Prepared:
        """Raises UsageError, ContextTooLong or TemplateError; RenderingStopped from `stop` on."""
        make = {
            "answer": self._answer,
            "continue": self._continue,
            "title": self._title,
            "aside": self._aside,
            "judge": self._judge,
            "pin": self._pin,
        }
        return make[submit.kind](submit)

    def canonical(self, prepared: Prepared, result: Result) -> Request | None:
        """The history with its answer, as the next prompt will begin; None where it is not wanted.

        A cut answer may go on, so its own ids must stay in the cache.
        """
        submit = prepared.submit
        if submit is None or not submit.conversation or not result.token_ids:
            return None
        *history, answer = self._answered(submit, result)
        ids = self.history(replace(submit, messages=tuple(history)), answer)
        end_ids = self._tokenizer.end_ids
        said = (*result.prompt_ids, *without_end(result.token_ids, end_ids))
        unchanged = ids[: len(said)] == said
        if unchanged and not self._exact:
            return None
        if result.finish_reason != "stop" and not unchanged:
            return None
        return Request(
            request_id=f"canonical {submit.request_id}",
            ids=ids,
            limits=Limits(max_tokens=0),
            priority=Priority.BACKGROUND,
            conversation=submit.conversation,
            replaces=True,
            exact_prefix=_common(ids, result.prompt_ids),
        )

    def history(self, submit: Submit, answer: ChatMessage) -> tuple[int, ...]:
        """The ids that every next prompt of this conversation begins with."""

        def form(text: str) -> PromptIds:
            messages = (*submit.messages, answer, ChatMessage("user", text))
            return self._fit(replace(submit, messages=messages)).prompt

        return stable_prefix(form, frozenset(self._tokenizer.control_tokens.values()))

    def _answered(self, submit: Submit, result: Result) -> tuple[ChatMessage, ...]:
        """The messages with the answer as it is now; one that went on is one message."""
        answer = ChatMessage(
            "assistant",
            result.text,
            result.reasoning,
            result.token_ids,
            self._tokenizer.fingerprint,
        )
        if submit.kind != "continue":
            return (*submit.messages, answer)
        *history, begun = submit.messages
        said = self._said(begun)
        ids = () if said is None else (*said, *answer.ids)
        whole = replace(
            answer,
            content=begun.content + answer.content,
            reasoning=begun.reasoning + answer.reasoning,
            ids=ids,
        )
        return (*history, whole)

    # ---- kinds

    def _answer(self, submit: Submit) -> Prepared:
        _check_question(submit.messages)
        fitted = self._fit(submit)
        return self._prepared(submit, fitted, fitted.prompt.ids, fitted.prompt.thinking_open)

    def _continue(self, submit: Submit) -> Prepared:
        if not submit.messages or submit.messages[-1].role != "assistant":
            raise UsageError("There is no answer to go on with.", "The last message is no answer.")
        *history, answer = submit.messages
        _check_question(history)
        said = self._said(answer)
        if said is None:
            fitted = self._fit(submit, continue_last=True)
            ids, thinking = fitted.prompt.ids, False
        else:
            fitted = self._fit(replace(submit, messages=tuple(history)))
            ids = (*fitted.prompt.ids, *said)
            shown = "".join(map(self._tokenizer.token_text, said))
            thinking = _still_open(fitted.prompt.thinking_open, shown, self._formatter)
        self._check_room(ids, submit)
        return self._prepared(submit, fitted, ids, thinking)

    def _title(self, submit: Submit) -> Prepared:
        if self._formatter.template is None:
            raise UsageError("This model cannot make titles.", "It has no chat template.")
        question = ChatMessage("user", INSTRUCTION)
        asked = replace(
            submit,
            messages=(*submit.messages, question),
            sampling=SamplingOverrides(temperature=0.0, seed=0),
            max_tokens=TITLE_TOKENS,
            stop=(),
            stop_after=None,
            priority=Priority.BACKGROUND,
            conversation="",
        )
        return self._quiet(asked, submit.max_tokens)

    def _aside(self, submit: Submit) -> Prepared:
        _check_question(submit.messages)
        return self._quiet(replace(submit, conversation=""), submit.max_tokens)

    def _judge(self, submit: Submit) -> Prepared:
        prepared = self._aside(replace(submit, max_tokens=1))
        yes, no = (self._tokenizer.encode_after(word)[0] for word in ("Yes", "No"))
        return replace(prepared, request=replace(prepared.request, weighs=(yes, no)))

    def _quiet(self, submit: Submit, room: int | None) -> Prepared:
        """A side job with its instruction at the end, answered without thinking; history is left
        out as for an answer of `room` tokens.
        """
        fitted = self._fit(replace(submit, max_tokens=room), quiet=True)
        ids = fitted.prompt.ids
        if fitted.prompt.thinking_open and self._formatter.thinking is not None:
            ids = (*ids, *self._closing(self._formatter.thinking.close))
        return self._prepared(submit, replace(fitted, notices=()), ids, False)

    def _pin(self, submit: Submit) -> Prepared:
        _check_question(submit.messages)
        *history, last = submit.messages

        def form(text: str) -> PromptIds:
            message = replace(last, content=last.content + text)
            return self._fit(replace(submit, messages=(*history, message))).prompt

        ids = stable_prefix(form, frozenset())
        asked = replace(submit, max_tokens=0, stop_after=None)
        prepared = self._prepared(asked, Fit(PromptIds(ids, ())), ids, False)
        return replace(prepared, request=replace(prepared.request, pinned=True))

    # ---- parts

    def _fit(self, submit: Submit, continue_last: bool = False, quiet: bool = False) -> Fit:
        options = FormatOptions(
            date=submit.date,
            continue_last=continue_last,
            variables={"enable_thinking": False} if quiet else {},
        )

        def form(messages: Sequence[ChatMessage]) -> PromptIds:
            kept = {i: KeptIds(m.ids, m.tokenizer) for i, m in enumerate(messages) if m.ids}
            return self._formatter.prompt([_turn(m) for m in messages], kept, options)

        return fit(submit, form, self.count, self._context)

    def _said(self, answer: ChatMessage) -> tuple[int, ...] | None:
        """Ids of a cut answer; None when they are another tokenizer's, or say something else."""
        if not answer.ids and not answer.content:
            return ()
        if not answer.ids or answer.tokenizer != self._tokenizer.fingerprint:
            return None
        ids = without_end(answer.ids, self._tokenizer.end_ids)
        text = b"".join(map(self._tokenizer.piece, ids)).decode("utf-8", "ignore")
        content = answer.content.rstrip("\ufffd").strip()
        return ids if text.strip().endswith(content) else None

    def _check_room(self, ids: tuple[int, ...], submit: Submit) -> None:
        if len(ids) + least_room(self._context, submit.max_tokens) > self._context:
            raise ContextTooLong(
                "There is no room for the answer to go on.",
                f"The conversation has {len(ids):,} tokens of {self._context:,}.",
                "Ask a new question, or set a larger context.",
            )

    def _closing(self, tag: str) -> tuple[int, ...]:
        close = self._tokenizer.find(tag)
        ids = self._tokenizer.encode_after(tag) if close is None else (close,)
        return (*ids, *self._tokenizer.encode_after("\n\n"))

    def _prepared(
        self, submit: Submit, fitted: Fit, ids: tuple[int, ...], thinking: bool
    ) -> Prepared:
        limit, stops_early = _length(submit)
        request = Request(
            request_id=submit.request_id,
            ids=ids,
            sampling=self._sampling(submit.sampling),
            limits=Limits(limit, submit.stop),
            priority=submit.priority,
            conversation=submit.conversation,
            parts=tuple(Part(start, name) for start, name in fitted.prompt.parts),
            repeatable=submit.sampling.seed is not None,
            thinking=thinking,
            keep=bool(submit.conversation),
        )
        return Prepared(
            request=request,
            kind=submit.kind,
            notices=self._notices(submit.conversation, fitted),
            stops_early=stops_early,
            seed_given=submit.sampling.seed is not None,
            submit=submit,
        )

    def _sampling(self, overrides: SamplingOverrides) -> Sampling:
        given = {field.name: getattr(overrides, field.name) for field in fields(overrides)}
        chosen = {name: value for name, value in given.items() if value is not None}
        return replace(self._defaults, **{"seed": self._draw_seed(), **chosen})

    def _notices(self, conversation: str, fitted: Fit) -> tuple[str, ...]:
        """What the template needed is said once in a conversation, what was left out every time."""
        new = tuple(
            notice
            for notice in fitted.prompt.notices
            if not conversation or (conversation, notice) not in self._told
        )
        self._told.update((conversation, notice) for notice in new if conversation)
        return (*fitted.notices, *new)


def _turn(message: ChatMessage) -> Turn:
    return Turn(message.role, message.content, reasoning=message.reasoning)


def _check_question(messages: Sequence[ChatMessage]) -> None:
    if not messages or messages[-1].role != "user" or not messages[-1].content.strip():
        raise UsageError("The message is empty.", "", "Write something first.")


def _length(submit: Submit) -> tuple[int | None, bool]:
    """Most tokens, and whether reaching them is a stop that was asked for."""
    if submit.stop_after is None:
        return submit.max_tokens, False
    if submit.max_tokens is not None and submit.max_tokens < submit.stop_after:
        return submit.max_tokens, False
    return submit.stop_after, True


def without_end(ids: tuple[int, ...], end_ids: frozenset[int]) -> tuple[int, ...]:
    return ids[:-1] if ids and ids[-1] in end_ids else ids


def _still_open(prompt_open: bool, said: str, formatter: ChatFormatter) -> bool:
    if formatter.thinking is None:
        return False
    return left_open((formatter.thinking.open if prompt_open else "") + said) is not None


def _common(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
