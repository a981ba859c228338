"""What a question is answered from: searched, fitted into the context, and kept with the question.

It knows conversations and knowledge bases. It asks the engine for counts and for the rewriting of
a question, and makes no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.knowledge import collection
from app.knowledge.fitting import budget, estimate, fitting, size
from app.knowledge.passage import Passage, Retrieved
from app.knowledge.prompt import new_mark
from app.knowledge.sources import Sources
from app.store.conversation import Message

if TYPE_CHECKING:
    from app.knowledge.base import KnowledgeBase

NOTHING_FOUND = "The documents say nothing about this."
MOST_UNUSED = 12
"""Passages kept with a question for a look at what was found and not read."""
PARTS_ONLY = (
    "This question is about all of the documents, but only {read} of the passages found were read."
)


@dataclass(frozen=True, slots=True)
class Searching:
    """What is done before an answer begins, in words; `total` 0 where no end is known."""

    text: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The documents of a question are on disk with it; comes before the answer's first word."""

    user_message_id: int
    question: str
    sources: Sources
    passages: tuple[Passage, ...]
    """What `[1]`, `[2]`, ... mean in the answer; of a collection read earlier too."""


Steps = Generator[Searching, None, Sources]


@dataclass(frozen=True, slots=True)
class Grounding:
    """How one question to a base finds its documents."""

    base: KnowledgeBase
    count: Callable[[str], int | None]
    context: int
    """Tokens of prompt and answer together."""
    secret: str
    also: Callable[[], Sequence[str]] = tuple
    """Further words to search for, made when they are needed."""

    def sources(self, path: Sequence[Message]) -> Steps:
        """For the last message of `path`. Raises what the base raises."""
        question = path[-1].text
        yield Searching(f"searching {self.base.name}")
        self.base.rescan()
        also = self.also()
        found = fitting(
            lambda characters: self.base.query(question, characters, also),
            self.tokens,
            budget(self.context),
        )
        if found.is_refused or not found.passages:
            return refusal(self.base.name, found)
        everything = self._whole()
        if everything is not None:
            return self._placed(everything, path[:-1])
        return searched(self.base.name, found)

    def tokens(self, text: str) -> int:
        counted = self.count(text)
        return estimate(text) if counted is None else counted

    def _whole(self) -> Sources | None:
        """All of the base, where it is small enough."""
        passages = collection.passages(self.base)
        limit = min(collection.MOST_TOKENS, self.context // 2)
        if not passages or size(passages, self.tokens) > limit:
            return None
        return collection.whole(self.base.name, passages, self.secret)

    def _placed(self, sources: Sources, history: Sequence[Message]) -> Sources:
        """Without its passages where they stand in the conversation already, and stay there."""
        earlier = [one.sources for one in history if one.sources is not None]
        if not any(one.passages and one.collection == sources.collection for one in earlier):
            return sources
        texts = [message.said or message.text for message in history]
        used = self.tokens("\n".join(texts)) + size(sources.passages, self.tokens)
        if used > self.context // 4 * 3 - 64 * len(history):
            return sources
        return replace(sources, passages=())


def refusal(name: str, found: Retrieved) -> Sources:
    return Sources(name, is_refused=True, reason=found.reason or NOTHING_FOUND)


def searched(name: str, found: Retrieved) -> Sources:
    read, total = len(found.passages), len(found.passages) + len(found.unused)
    is_partial = found.needs_all and bool(found.unused)
    notices = (PARTS_ONLY.format(read=f"{read} of {total}"),) if is_partial else ()
    return Sources(
        base=name,
        mark=new_mark(found.passages),
        passages=found.passages,
        unused=found.unused[:MOST_UNUSED],
        reason=found.reason,
        notices=notices,
    )


def cited_passages(path: Sequence[Message]) -> tuple[Passage, ...]:
    """What the numbers in an answer to the last question of `path` mean."""
    question = next((one for one in reversed(path) if one.role == "user"), None)
    sources = None if question is None else question.sources
    if sources is None or sources.passages or not sources.is_whole:
        return () if sources is None else sources.passages
    for message in reversed(path):
        earlier = message.sources
        if earlier and earlier.passages and earlier.collection == sources.collection:
            return earlier.passages
    return ()
