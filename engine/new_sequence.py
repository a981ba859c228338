"""A request as it begins to run."""

from __future__ import annotations

from engine.drafts import Drafter
from engine.output.answer import AnswerText
from engine.output.changes import penalises
from engine.output.recent import RecentTokens
from engine.output.text_stream import half_character
from engine.request import Request
from engine.sequence import Clocks, Sequence
from engine.vocabulary import Vocabulary


def new_sequence(
    request: Request,
    order: int,
    vocabulary: Vocabulary,
    think_tags: tuple[str, str],
    drafter: Drafter | None,
    now: float,
) -> Sequence:
    """`order`: smaller was submitted earlier; `now`: seconds on the engine's clock."""
    sampling = request.sampling
    begun = half_character(reversed(request.ids), vocabulary.piece)
    recent = None
    if penalises(sampling):
        recent = RecentTokens(sampling.repeat_last_n, request.ids)
    return Sequence(
        request=request,
        order=order,
        answer=AnswerText(vocabulary, request.limits.stop, think_tags, request.thinking, begun),
        recent=recent,
        drafter=drafter,
        ids=list(request.ids),
        clocks=Clocks(submitted=now),
    )
