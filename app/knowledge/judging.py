"""Puts what a search found in the order of a model's judgement: does this passage help to answer?

The search's own order decides where the model sees no difference. It asks no model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from app.knowledge.fitting import size
from app.knowledge.passage import Passage, Retrieved
from app.knowledge.prompt import about_one

MOST = 12
"""Passages that are judged; each is read once more."""
SCALE = 4.0
"""Logits that weigh as much as the whole of a search's score."""
RULES = """\

Does this document help to answer the question below? Reply with Yes or No only.

Question:
{question}"""

Judge = Callable[[str], float | None]
"""How much likelier yes is than no, as a difference of logits; None where it was stopped."""


def judged(
    found: Retrieved, question: str, judge: Judge, count: Callable[[str], int], tokens: int
) -> Generator[tuple[int, int], None, Retrieved]:
    """The same passages, the best by both opinions first into the budget of `tokens`. Yields how
    many are judged, and of how many.
    """
    everything = sorted((*found.passages, *found.unused), key=lambda one: -one.score)
    best, rest = everything[:MOST], everything[MOST:]
    opinions: list[Passage] = []
    for number, one in enumerate(best):
        yield number, len(best)
        margin = judge(about_one(one, RULES, question))
        if margin is None:
            return found
        words = f"{one.reason} + judgement {margin:+.1f}"
        opinions.append(replace(one, score=one.score + margin / SCALE, reason=words))
    opinions.sort(key=lambda one: -one.score)
    taken = fill(opinions, count, tokens)
    left = [one for one in opinions if one not in taken]
    taken.sort(key=lambda one: (one.name, one.start))
    return replace(found, passages=tuple(taken), unused=(*left, *rest))


def fill(passages: Sequence[Passage], count: Callable[[str], int], tokens: int) -> list[Passage]:
    """The first is always taken; what is too long for the rest is passed over."""
    taken: list[Passage] = []
    for one in passages:
        if not taken or size([*taken, one], count) <= tokens:
            taken.append(one)
    return taken
