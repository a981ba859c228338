"""From a question on disk to the engine's events of its answer, its documents found on the way.

Everything a person waits for before the first word happens here, in the order of its telling. It
writes the documents to the question's row and no other.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from app.attached import Attachment
from app.attached_text import AttachedText
from app.grounding import Found, Grounding, Searching, cited_passages
from app.knowledge.candidates import speaks
from app.knowledge.followup import MOST_TOKENS, cleaned, instruction, is_followup, rare_terms
from app.knowledge.readings import note_reading
from app.knowledge.sources import Sources
from app.pinning import pinned_name, pinning, with_reading
from app.running import Running, RunningRequests
from app.store.conversation import Chat, Message
from app.store.history import History
from app.submission import chat_messages, refused
from engine.client import EngineClient
from engine.errors import LocalchatError
from engine.events import Event, Failed, Finished, PromptProgress, Result, Started
from engine.fitting import answer_room
from engine.messages import ChatMessage, Loaded, SamplingOverrides, Submit

if TYPE_CHECKING:
    from app.knowledge.base import KnowledgeBase
    from app.knowledge.open_bases import OpenBases
    from app.settings import KnowledgeSettings

TEXT_GONE = (
    "The text that came with this chat is not at hand any more: attach it again to have it "
    "searched."
)

StepEvent = Searching | Found | Event
Steps = Generator[StepEvent, None, None]


@dataclass(frozen=True, slots=True)
class Question:
    """What one answer begins with."""

    chat: Chat
    message_id: int
    text: str
    """What is searched for."""
    submit: Submit
    loaded: Loaded
    settings: KnowledgeSettings
    kb: str | None = None
    attached: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Asking:
    """The steps of every answer of one session."""

    history: History
    client: EngineClient
    knowledge: OpenBases
    requests: RunningRequests
    collections: AttachedText
    owner: str
    """The session's name in the engine's cache."""
    pins: set[str]
    """Names of the collections that were read whole."""
    is_private: bool
    """Nothing of the answers is written down."""

    def steps(self, question: Question, running: Running) -> Steps:
        """Documents first, where the question has or gets any, then the engine. Ends early where
        the answer was stopped before the engine was asked.
        """
        path = self.history.path(question.chat.id, question.message_id)
        asked, submit = path[-1], question.submit
        goes_on = submit.kind == "continue"
        before = asked.sources
        if not goes_on and not (before is not None and before.is_found):
            sources = yield from self._sources(question, path, running)
            if running.cancelled.is_set():
                return
            if sources is not None:
                if before is not None:
                    sources = replace(sources, given=before.given, is_with_text=before.is_with_text)
                asked = self.history.set_sources(asked.id, sources)
                path = [*path[:-1], asked]
                submit = replace(submit, messages=chat_messages(question.chat, path))
        if asked.sources is not None and asked.sources.says_something:
            yield Found(asked.id, question.text, asked.sources, cited_passages(path))
            if asked.sources.is_refused and not goes_on:
                yield from refused(submit, asked.sources.reason, question.loaded)
                return
        is_first = len(path) == 1
        yield from self._answer(replace(question, submit=submit), asked, is_first, running)

    def _answer(
        self, question: Question, asked: Message, is_first: bool, running: Running
    ) -> Steps:
        pin: Result | None = None
        started = time.monotonic()
        if is_first and asked.sources is not None and asked.sources.is_whole:
            pin = yield from self._pin(question, asked.sources)
        pin_s = time.monotonic() - started
        if running.cancelled.is_set():
            return
        for event in self._submitted(question.submit):
            if pin is not None and isinstance(event, Finished):
                event = replace(event, result=with_reading(event.result, pin, pin_s))
            yield event

    def _submitted(self, submit: Submit) -> Iterator[Event]:
        """The engine's work; nothing is embedded meanwhile."""
        self.knowledge.pause()
        try:
            yield from self.client.submit(submit)
        finally:
            self.knowledge.resume()

    def _pin(
        self, question: Question, sources: Sources
    ) -> Generator[StepEvent, None, Result | None]:
        """Reads a small collection so that every later question to it finds it read. Where that
        fails the answer tells why.
        """
        name = pinned_name(self.owner, question.chat, sources, question.loaded)
        if not self.is_private and sources.base:
            try:
                folder = self.knowledge.get(sources.base).folder
            except LocalchatError:  # The base was removed: nothing more of it is kept.
                return None
            note_reading(folder, name)
        self.pins.add(name)
        pin = pinning(question.submit, sources, name)
        with self.requests.running(pin.request_id, question.chat.id):
            for event in self._submitted(pin):
                if isinstance(event, Finished):
                    return event.result
                if isinstance(event, (Started, PromptProgress)):
                    yield event
        return None

    # ---- documents

    def _sources(
        self, question: Question, path: Sequence[Message], running: Running
    ) -> Generator[StepEvent, None, Sources | None]:
        """None: the question has no documents."""
        *history, asked = path
        is_with_text = asked.sources is not None and asked.sources.is_with_text
        if question.attached:
            yield Searching("reading the attached text")
        base, is_attached = self._base(question, path)
        if base is None:
            is_new = is_attached and not any(map(is_told_gone, history))
            return Sources("", notices=(TEXT_GONE,)) if is_new else None
        judges = question.settings.rerank
        context = question.loaded.ctx
        grounding = Grounding(
            base=base,
            ask=lambda text, tokens: self._ask(question, (), text, tokens, running),
            judge=(lambda text: self._weigh(question, text, running)) if judges else None,
            count=self.client.count,
            context=context,
            most_prompt=context - answer_room(context, question.submit.max_tokens),
            secret=self.owner,
            also=cache(lambda: self._also(question, history, running)),
            reads_all=question.settings.read_all,
            is_attached=is_attached,
            is_later=is_attached and not is_with_text,
            learning=lambda seconds: self._learning(question, running, seconds),
        )
        return (yield from grounding.sources(question.text, history))

    def _base(
        self, question: Question, path: Sequence[Message]
    ) -> tuple[KnowledgeBase | None, bool]:
        """What to search, and whether it is text that came with the chat."""
        chat_id = question.chat.id
        if question.attached:
            return self.collections.make(chat_id, question.attached), True
        if question.kb is not None:
            return self.knowledge.get(question.kb), False
        is_about_text = any(map(came_with_text, path))
        return (self.collections.get(chat_id), True) if is_about_text else (None, False)

    def _learning(
        self, question: Question, running: Running, seconds: float
    ) -> Iterator[Searching]:
        """Until the meaning of attached text is learnt, where it can judge such a question."""
        embedder = self.knowledge.all.embedder
        if embedder is None or not speaks(embedder, question.text):
            return
        for progress in self.collections.learning(question.chat.id, seconds):
            if running.cancelled.is_set():
                return
            yield Searching("learning what the text means", progress.done, progress.total)

    def _also(
        self, question: Question, history: Sequence[Message], running: Running
    ) -> Sequence[str]:
        """For a question that leans on the last turn: the question made whole, else old words."""
        if not history or not is_followup(question.text):
            return ()
        if question.settings.rewrite:
            before = chat_messages(question.chat, history)
            text = instruction(question.text)
            said = self._ask(question, before, text, MOST_TOKENS, running)
            if line := cleaned(said or "", question.text):
                return (line,)
        return rare_terms([message.text for message in history[-2:]])

    def _ask(
        self,
        question: Question,
        before: tuple[ChatMessage, ...],
        text: str,
        tokens: int,
        running: Running,
    ) -> str | None:
        """A side job behind the chat's beginning; None where it was stopped or failed."""
        result = self._aside(
            question, "aside", (*before, ChatMessage("user", text)), running, tokens
        )
        return None if result is None or result.finish_reason == "cancelled" else result.text

    def _weigh(self, question: Question, text: str, running: Running) -> float | None:
        """How much likelier the model says yes than no."""
        result = self._aside(question, "judge", (ChatMessage("user", text),), running)
        return None if result is None else result.margin

    def _aside(
        self,
        question: Question,
        kind: Literal["aside", "judge"],
        messages: tuple[ChatMessage, ...],
        running: Running,
        tokens: int = 1,
    ) -> Result | None:
        """None where it was stopped or failed."""
        if running.cancelled.is_set():
            return None
        submit = replace(
            question.submit,
            request_id=f"{question.submit.request_id}-aside-{time.monotonic_ns()}",
            messages=messages,
            kind=kind,
            sampling=SamplingOverrides(temperature=0.0, seed=0),
            max_tokens=tokens,
            stop=(),
            stop_after=None,
        )
        with suppress(LocalchatError), self.requests.running(submit.request_id, question.chat.id):
            for event in self._submitted(submit):
                if isinstance(event, Finished):
                    return event.result
                if isinstance(event, Failed):
                    break
        return None


def came_with_text(message: Message) -> bool:
    """Whether the message was about text that is searched."""
    sources = message.sources
    return sources is not None and (sources.is_with_text or (not sources.base and sources.is_found))


def is_told_gone(message: Message) -> bool:
    return message.sources is not None and TEXT_GONE in message.sources.notices
