"""What a question is answered from: searched or read in parts, fitted into the context.

It knows conversations and knowledge bases. The model is asked through the functions it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from app.knowledge import collection, parts
from app.knowledge.fitting import budget, estimate, fitting, shrunk, size
from app.knowledge.followup import is_courtesy, is_question
from app.knowledge.judging import Judge, judged
from app.knowledge.passage import Passage, Retrieved
from app.knowledge.prompt import new_mark
from app.knowledge.sources import Sources
from app.store.conversation import Message

if TYPE_CHECKING:
    from app.knowledge.base import KnowledgeBase

NOTHING_FOUND = "The documents say nothing about this."
NOT_ALL_READ = "Some of the documents may not be read yet."
MOST_UNUSED = 12
"""Passages kept with a question for a look at what was found and not read."""
TURN_TOKENS = 64
"""What a template may put around one message, and the error of counting texts apart."""
PARTS_ONLY = (
    "The question is about all of the documents, but only {read} of {total} passages found were "
    "read."
)
A_MOMENT_S, LEARNING_S = 2.0, 60.0
READ_ALL = "The documents were read whole, in {count} parts."
READ_SOME = "The first {count} parts of the documents were read; the rest was not."
READ_BEGINNING = "Only the beginning of the text was read: kb_read_all is off."
UNREAD = "The model failed at {failed} of the {count} parts: nothing is known of them."
NO_ROOM = "What it says of {count} more parts did not fit into the context."


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


Steps = Generator[Searching, None, Sources | None]
Ask = Callable[[str, int], str | None]
"""A side question to the model and the most tokens of its answer; None: it was stopped or failed.
"""


@dataclass(frozen=True, slots=True)
class Grounding:
    """How one question to a base finds its documents."""

    base: KnowledgeBase
    ask: Ask
    count: Callable[[str], int | None]
    context: int
    """Tokens of prompt and answer together."""
    most_prompt: int
    """Tokens of a prompt that leaves room for its answer."""
    secret: str
    """What no author of a document knows."""
    also: Callable[[], Sequence[str]]
    """Further words to search for, made when they are needed."""
    judge: Judge | None = None
    """Where the model is to judge what was found."""
    reads_all: bool = True
    is_attached: bool = False
    """The documents came with the question: they are never said to say nothing about it."""
    is_later: bool = False
    """They came with an earlier question: one that they say nothing about is asked without them."""
    learning: Callable[[float], Iterator[Searching]] = lambda seconds: iter(())
    """Learns the meaning of documents that came with the question, for so many seconds at most."""

    def sources(self, question: str, history: Sequence[Message]) -> Steps:
        """None: the question is asked without documents. Raises what the base raises."""
        comes_with_text = self.is_attached and not self.is_later
        if is_courtesy(question) and not comes_with_text:
            return None
        name = "" if self.is_attached else self.base.name
        used = used_tokens(history)
        yield Searching(f"searching {name or 'the attached text'}")
        is_read = self.base.rescan()
        found = yield from self._found(question, used)
        if not is_read:
            found = replace(found, reason=f"{found.reason} {NOT_ALL_READ}".lstrip())
        if self.is_later and found.is_refused:
            return None
        if self.is_attached and is_question(question):
            # A person who attaches a text wants an answer from it.
            found = replace(found, is_refused=False)
        is_found = bool(found.passages) and not found.is_refused
        is_about_all = found.needs_all or (self.is_attached and not is_found)
        if (is_about_all or is_found) and not self.is_attached:
            everything = self._whole(history)
            if everything is not None:
                return everything
        if is_about_all and self.reads_all:
            return (yield from self._read_in_parts(question, found, name, used))
        if not is_found:
            return self._beginning(used) if self.is_attached else refusal(name, found)
        if self.judge is not None:
            found = yield from self._judged(question, found, used)
        return searched(name, found, told=(found.reason,) if comes_with_text else ())

    def tokens(self, text: str) -> int:
        counted = self.count(text)
        return estimate(text) if counted is None else counted

    def _found(self, question: str, used: int) -> Generator[Searching, None, Retrieved]:
        """By words alone where their meaning is not learnt in a moment. Where they say nothing a
        person waits longer: less long than for everything to be read.
        """
        if not self.is_attached:
            return self._search(question, used)
        yield from self.learning(A_MOMENT_S)
        found = self._search(question, used)
        if found.passages or self.is_later or not is_question(question):
            return found
        yield from self.learning(LEARNING_S)
        return self._search(question, used)

    def _search(self, question: str, used: int) -> Retrieved:
        also = self.also()
        found = fitting(
            lambda characters: self.base.query(question, characters, also),
            self.tokens,
            budget(self.context, used),
        )
        return without_files(found) if self.is_attached else found

    def _judged(
        self, question: str, found: Retrieved, used: int
    ) -> Generator[Searching, None, Retrieved]:
        assert self.judge is not None
        tokens = budget(self.context, used)
        steps = judged(found, question, self.judge, self.tokens, tokens)
        try:
            while True:
                done, total = next(steps)
                yield Searching(f"judging passage {done + 1} of {total}", done, total)
        except StopIteration as end:
            result: Retrieved = end.value
            return result

    # ---- small collections

    def _whole(self, history: Sequence[Message]) -> Sources | None:
        """All of the base, where it is small enough. Without its passages where they stand in the
        conversation already, and stay there. None where the conversation leaves no room for them.
        """
        passages = collection.passages(self.base)
        if not passages:
            return None
        tokens = size(passages, self.tokens)
        if tokens > min(collection.MOST_TOKENS, self.context // 2):
            return None
        sources = collection.whole(self.base.name, passages, self.secret)
        room = self.most_prompt - TURN_TOKENS * (len(history) + 1)
        earlier = [one.sources for one in history if one.sources is not None]
        if not any(one.passages and one.collection == sources.collection for one in earlier):
            return sources if used_tokens(history) + tokens <= room or not history else None
        texts = [message.said or message.text for message in history]
        stays = self.tokens("\n".join(texts)) + tokens <= room
        return replace(sources, passages=()) if stays else sources

    # ---- questions about all

    def _read_in_parts(self, question: str, found: Retrieved, name: str, used: int) -> Steps:
        """The model's notes on each part stand in the place of passages."""
        room = budget(self.context, used)
        documents = parts.documents(self.base, found.passages)
        tokens = parts.part_tokens(self.context)
        some = list(islice(parts.parts(documents, self.tokens, tokens), parts.MOST_PARTS + 1))
        is_all = len(some) <= parts.MOST_PARTS
        some = some[: parts.MOST_PARTS]
        limit = parts.note_tokens(room, len(some))
        notes, failed = [], 0
        for number, part in enumerate(some):
            yield Searching(f"reading part {number + 1} of {len(some)}", number, len(some))
            said = self.ask(parts.asked(part, question), limit)
            failed += said is None
            if said is not None and (note := parts.noted(part, said)) is not None:
                notes.append(note)
        read = shrunk(Retrieved(tuple(notes)), self.tokens, room)
        read = without_files(read) if self.is_attached else read
        told = [(READ_ALL if is_all else READ_SOME).format(count=len(some))]
        if failed:
            told = [UNREAD.format(failed=failed, count=len(some))]
        if not read.passages:
            nothing = [NOTHING_FOUND] if failed < len(some) else []
            return Sources(name, is_refused=True, reason=" ".join((*nothing, *told)))
        if read.unused:
            told.append(NO_ROOM.format(count=len(read.unused)))
        mark = new_mark(read.passages)
        return Sources(name, mark, read.passages, read.unused[:MOST_UNUSED], notices=tuple(told))

    def _beginning(self, used: int) -> Sources:
        """Of a text that was given to be read and in which nothing was found."""
        room = budget(self.context, used)
        first = islice(parts.parts(parts.documents(self.base, ()), self.tokens, room), 1)
        fits = shrunk(Retrieved(tuple(first)), self.tokens, room)
        return searched("", without_files(fits), (READ_BEGINNING,))


def used_tokens(history: Sequence[Message]) -> int:
    """Tokens of a conversation, as its last answer was told."""
    for message in reversed(history):
        if message.info is not None and message.info.usage.prompt_tokens:
            return message.info.usage.prompt_tokens + message.info.usage.completion_tokens
    return 0


def without_files(found: Retrieved) -> Retrieved:
    """Attached text has a name and stands in no file."""
    passages, unused = (
        tuple(replace(one, path=Path(one.name)) for one in some)
        for some in (found.passages, found.unused)
    )
    return replace(found, passages=passages, unused=unused)


def refusal(name: str, found: Retrieved) -> Sources:
    reason = found.reason or NOTHING_FOUND
    return Sources(name, unused=found.best_first[:MOST_UNUSED], is_refused=True, reason=reason)


def searched(name: str, found: Retrieved, told: tuple[str, ...] = ()) -> Sources:
    read, total = len(found.passages), len(found.passages) + len(found.unused)
    is_partial = found.needs_all and bool(found.unused)
    return Sources(
        base=name,
        mark=new_mark(found.passages),
        passages=found.passages,
        unused=found.unused[:MOST_UNUSED],
        reason=found.reason,
        notices=(*told, PARTS_ONLY.format(read=read, total=total)) if is_partial else told,
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
