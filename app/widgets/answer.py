"""One answer: thinking, streamed Markdown, one dim line of facts, or what went wrong."""

from __future__ import annotations

import time

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from app.knowledge.sources import Sources
from app.sanitize import clean, single_line
from app.store.conversation import Message
from app.widgets import words
from app.widgets.answer_text import AnswerText
from app.widgets.sources import SourceLines
from app.widgets.thinking import Thinking
from app.widgets.turn import Turn
from engine.events import Delta, ErrorInfo, PromptProgress

DRAW_EVERY_S = 0.1


class AnswerTurn(Turn):
    """An answer, complete or growing. `text` is the whole of it; the screen may show less."""

    def __init__(
        self,
        message: Message,
        siblings: tuple[int, ...] = (),
        continue_key: str = "ctrl+e",
        sources_key: str = "f3",
    ) -> None:
        name = model_name(message.info.model if message.info else "")
        super().__init__(message, name, siblings)
        self.text = message.text
        self.is_growing = False
        self.sources: Sources | None = None
        """The documents of its question."""
        self._continue_key = continue_key
        self._thinking = Thinking(message.reasoning)
        self._body = AnswerText(message.text)
        self._sources = SourceLines(sources_key)
        self._facts = Static(markup=False, classes="facts")
        self._problem = Static(markup=False, classes="problem")
        self._started_at = 0.0
        self._is_drawing_soon = False
        self._drawn_at = 0.0

    def compose(self) -> ComposeResult:
        yield self.header
        yield self._thinking
        yield self._body
        yield self._problem
        yield self._sources
        yield self._facts

    def on_mount(self) -> None:
        self._problem.display = False
        self._facts.display = False
        if not self.is_growing:
            self._show_end(self.message)

    # ---- while it grows

    def begin(self) -> None:
        """Words are expected."""
        self.is_growing = True
        self._started_at = time.monotonic()
        self._facts.display = False
        self._problem.display = False
        self.header.show_state("waiting")

    def progress(self, progress: PromptProgress) -> None:
        self.header.show_state(words.reading(progress))

    def add(self, delta: Delta) -> None:
        """More words; they are drawn in paced batches."""
        self.header.show_state("writing")
        if delta.reasoning:
            self._thinking.add(delta.reasoning, time.monotonic() - self._started_at)
        if delta.text:
            self._thinking.end()
            self.text += delta.text
            self._body.add(delta.text)
            self._draw_soon()

    def finish(self, message: Message) -> None:
        """The whole of it is known."""
        self.is_growing = False
        self._thinking.end()
        if message.text != self.text:
            self._body.replace(message.text)
        self._body.draw()
        self.message, self.text = message, message.text
        self.header.show_state("")
        self._show_end(message)

    def fold(self) -> None:
        self._thinking.toggle()

    # ---- drawing

    def _draw_soon(self) -> None:
        """At most ten times a second: more is not read, and each costs a paint."""
        if self._is_drawing_soon or not self.is_attached:
            return
        wait = self._drawn_at + DRAW_EVERY_S - time.monotonic()
        self._is_drawing_soon = True
        self.set_timer(max(wait, 0.001), self._draw)

    def _draw(self) -> None:
        self._is_drawing_soon = False
        self._drawn_at = time.monotonic()
        self._body.draw()

    def _show_end(self, message: Message) -> None:
        line = end_line(message, self._continue_key)
        self._facts.display = bool(line)
        self._facts.update(Content(line))
        self._sources.show(message.id, message.citations, self.sources)
        error = message.info.error if message.info else None
        self._problem.display = error is not None
        if error is not None:
            self._problem.update(problem_words(error))


def model_name(file_name: str) -> str:
    """`SmolLM2-135M-Instruct.Q4_1.gguf` -> `SmolLM2 135M Instruct`."""
    stem = single_line(file_name.rsplit("/", 1)[-1], 80).removesuffix(".gguf")
    base, _, last = stem.rpartition(".")
    if base and last[:1] in "QqFfBbIi" and any(letter.isdigit() for letter in last):
        stem = base
    return stem.replace("-", " ").strip() or "Model"


def end_line(message: Message, continue_key: str) -> str:
    """The facts of an ended answer: how it ended, then what it cost."""
    info = message.info
    parts = [ending(message, continue_key)]
    if info is not None and info.usage.prompt_tokens:
        parts.append(words.facts(info.usage, info.timings))
    return " · ".join(part for part in parts if part)


def ending(message: Message, continue_key: str) -> str:
    """Empty for an answer that ended by itself."""
    reason = message.info.finish_reason if message.info else None
    goes_on = f"{continue_key} goes on"
    if message.status == "stopped":
        return f"stopped · {goes_on}"
    if message.status != "cut":
        return ""
    if reason == "length" and message.info is not None:
        tokens = message.info.usage.completion_tokens
        return f"cut at {words.plural(tokens, 'token')} · {goes_on}"
    if reason == "context":
        return "cut: the context is full · ctrl+n starts a new chat"
    return f"cut: it was not finished · {goes_on}"


def problem_words(error: ErrorInfo) -> Content:
    """What happened, why, what to do now."""
    parts: list[tuple[str, str]] = [(clean(error.title), "bold $error")]
    if error.text:
        parts.append(("\n" + clean(error.text), "$foreground"))
    parts.append(("\n" + (clean(error.next_step) or "ctrl+r tries again"), "$accent"))
    return Content.assemble(*parts)
