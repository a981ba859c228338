"""Conversation in, prompt ids out: the one object that the engine needs of this package.

Tries the history as it is, then reshaped, and remembers which reshaping this template needs.
Without a template the model simply continues the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from models.errors import TemplateError
from models.templates.child import TemplateChild
from models.templates.job import RenderJob
from models.templates.kept_ids import KeptIds
from models.templates.marks import ControlTexts
from models.templates.normalize import RESHAPINGS, Normalized, normalize
from models.templates.prompt import PromptIds, encode_prompt
from models.templates.rendered import Rendered, Span
from models.templates.thinking import ThinkingTags, thinking_tags
from models.templates.turns import Turn
from models.tokenizers.base import Tokenizer

COMPLETION_NOTICE = "The model file has no chat template: it continues the text."


@dataclass(frozen=True, slots=True)
class FormatOptions:
    date: str = ""
    """ISO date, fixed when the conversation was made."""
    continue_last: bool = False
    """The last turn is an answer that goes on."""
    add_generation_prompt: bool = True
    """False: the conversation as the next prompt will contain it, without the head of an answer."""
    variables: Mapping[str, Any] = field(default_factory=dict)


class ChatFormatter:
    """One model's conversations -> ids. Calls from several threads run one after the other."""

    def __init__(self, tokenizer: Tokenizer, template: str | None) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.thinking: ThinkingTags | None = thinking_tags(template or "")
        self._controls = ControlTexts(tokenizer.control_tokens)
        self._child = _child(tokenizer, template) if template else None
        self._reshaping = 0
        self._parse_arguments = True

    def prompt(
        self,
        turns: Sequence[Turn],
        kept: Mapping[int, KeptIds] | None = None,
        options: FormatOptions | None = None,
    ) -> PromptIds:
        """`kept` by index of `turns`; so are the indexes in the result.

        Raises TemplateError when the template refuses every shape of the history, RenderingStopped
        from `stop` on.
        """
        options = options or FormatOptions()
        history = normalize(turns, keep_last=options.continue_last)
        rendered, history = self._render(history, options)
        prompt = encode_prompt(
            rendered, self.tokenizer, _merged_ids(history, kept or {}), self._controls
        )
        return replace(
            prompt,
            notices=history.notices,
            reused=_sources(history, prompt.reused),
            retokenised=_sources(history, prompt.retokenised),
        )

    def stop(self) -> None:
        """From any thread: end what is being rendered, and render nothing until `resume`."""
        if self._child:
            self._child.stop()

    def resume(self) -> None:
        if self._child:
            self._child.resume()

    def close(self) -> None:
        if self._child:
            self._child.close()

    def _render(self, history: Normalized, options: FormatOptions) -> tuple[Rendered, Normalized]:
        if self._child is None:
            completion = replace(history, notices=(*history.notices, COMPLETION_NOTICE))
            return complete_text(history.turns), completion
        tries = _Tries()
        for index in _order(self._reshaping, len(RESHAPINGS)):
            shaped = _reshaped(history, index)
            if index and shaped is history:
                continue
            try:
                rendered = self._render_shape(self._child, shaped, options)
            except TemplateError as error:
                tries.errors.append(error)
                continue
            if not rendered.lost:
                self._remember(index, history)
                return rendered, shaped
            tries.lossy.append((rendered, shaped))
        return tries.best()

    def _render_shape(
        self, child: TemplateChild, shaped: Normalized, options: FormatOptions
    ) -> Rendered:
        job = RenderJob(
            turns=shaped.turns,
            controls=self._controls,
            date=options.date,
            add_generation_prompt=options.add_generation_prompt,
            continue_last=options.continue_last,
            parse_arguments=self._parse_arguments,
            variables=options.variables,
        )
        if not any(turn.tool_calls for turn in shaped.turns):
            return child.render(job)
        try:
            return child.render(job)
        except TemplateError:
            self._parse_arguments = not self._parse_arguments
            return child.render(replace(job, parse_arguments=self._parse_arguments))

    def _remember(self, index: int, history: Normalized) -> None:
        """What a system prompt needs is a trait of the template; the rest is this history's."""
        if index == 1 and history.turns[0].role == "system":
            self._reshaping = index


@dataclass
class _Tries:
    """What became of the shapes of one history, in the order of trying."""

    errors: list[TemplateError] = field(default_factory=list)
    lossy: list[tuple[Rendered, Normalized]] = field(default_factory=list)

    def best(self) -> tuple[Rendered, Normalized]:
        """The first that rendered; what it left out is told."""
        if self.lossy:
            return _with_losses(*self.lossy[0])
        if self.errors:
            raise self.errors[0]
        raise TemplateError("The model's chat template takes no messages.")


def _reshaped(history: Normalized, index: int) -> Normalized:
    for reshape in RESHAPINGS[index]:
        history = reshape(history)
    return history


def complete_text(turns: Sequence[Turn]) -> Rendered:
    """Turns as one plain text: an answer follows its question directly, all else a blank line."""
    pieces: list[str] = []
    spans: list[Span] = []
    length = 0
    for index, turn in enumerate(turns):
        text = _clean(turn.content or "")
        if pieces and turn.role != "assistant":
            pieces.append("\n\n")
            length += 2
        pieces.append(text)
        if text:
            spans.append(Span(index, "content", length, length + len(text)))
        length += len(text)
    return Rendered("".join(pieces), tuple(spans), frozenset(), tuple(turns))


def _clean(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _child(tokenizer: Tokenizer, template: str) -> TemplateChild:
    bos, eos = (
        "" if token_id is None else tokenizer.token_text(token_id)
        for token_id in (tokenizer.bos_id, tokenizer.eos_id)
    )
    return TemplateChild(template, bos, eos)


def _order(first: int, count: int) -> list[int]:
    return [first, *(index for index in range(count) if index != first)]


def _with_losses(rendered: Rendered, history: Normalized) -> tuple[Rendered, Normalized]:
    roles = sorted({rendered.turns[index].role for index in rendered.lost})
    notice = f"The chat template left out text of: {', '.join(roles)}."
    return rendered, replace(history, notices=(*history.notices, notice))


def _merged_ids(history: Normalized, kept: Mapping[int, KeptIds]) -> dict[int, KeptIds]:
    """Kept ids by index of the normalised turns; of merged answers one after the other."""
    merged: dict[int, KeptIds] = {}
    for index, sources in enumerate(history.sources):
        found = [kept[source] for source in sources if source in kept]
        if found:
            ids = tuple(token_id for each in found for token_id in each.ids)
            merged[index] = KeptIds(ids, found[0].tokenizer)
    return merged


def _sources(history: Normalized, indexes: Sequence[int]) -> tuple[int, ...]:
    return tuple(source for index in indexes for source in history.sources[index])
