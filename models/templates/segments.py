"""Cuts a rendered prompt into control tokens and the runs of text between them.

Control tokens are looked for in the template's own text only; what lies between two of them stays
in one piece, template text and messages together, since cutting there would change the ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from models.templates.marks import ControlTexts
from models.templates.rendered import Rendered, Span
from models.tokenizers.base import Tokenizer


@dataclass(frozen=True, slots=True)
class Control:
    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    text: str
    spans: tuple[Span, ...]
    """Places relative to this text."""


Segment = Control | Run


def segments(
    rendered: Rendered, tokenizer: Tokenizer, controls: ControlTexts
) -> tuple[Segment, ...]:
    """`controls` holds the texts of `tokenizer.control_tokens`."""
    result: list[Segment] = []
    position = 0
    for start, end in _control_places(rendered, controls):
        _add_run(result, rendered, position, start)
        text = rendered.text[start:end]
        result.append(Control(tokenizer.control_tokens[text], text))
        position = end
    _add_run(result, rendered, position, len(rendered.text))
    return tuple(_strip_around(result, tokenizer))


def _control_places(rendered: Rendered, controls: ControlTexts) -> Iterator[tuple[int, int]]:
    for start, end in _gaps(rendered):
        yield from controls.unbroken(rendered.text, start, end, rendered.barriers)


def _gaps(rendered: Rendered) -> Iterator[tuple[int, int]]:
    """The stretches that the template wrote itself."""
    position = 0
    for span in rendered.spans:
        yield position, span.start
        position = span.end
    yield position, len(rendered.text)


def _add_run(result: list[Segment], rendered: Rendered, start: int, end: int) -> None:
    if start == end:
        return
    spans = tuple(
        replace(span, start=span.start - start, end=span.end - start)
        for span in rendered.spans
        if start <= span.start and span.end <= end
    )
    result.append(Run(rendered.text[start:end], spans))


def _strip_around(found: list[Segment], tokenizer: Tokenizer) -> Iterator[Segment]:
    """Template white space that a neighbouring control token swallows goes, as in llama.cpp."""
    for index, segment in enumerate(found):
        if isinstance(segment, Control):
            yield segment
            continue
        before = found[index - 1] if index else None
        after = found[index + 1] if index + 1 < len(found) else None
        run = segment
        if isinstance(before, Control) and tokenizer.strips(before.id)[1]:
            run = _strip_left(run)
        if isinstance(after, Control) and tokenizer.strips(after.id)[0]:
            run = _strip_right(run)
        if run.text:
            yield run


def _strip_left(run: Run) -> Run:
    end = run.spans[0].start if run.spans else len(run.text)
    cut = end - len(run.text[:end].lstrip())
    spans = tuple(replace(span, start=span.start - cut, end=span.end - cut) for span in run.spans)
    return Run(run.text[cut:], spans)


def _strip_right(run: Run) -> Run:
    start = run.spans[-1].end if run.spans else 0
    return Run(run.text[:start] + run.text[start:].rstrip(), run.spans)
