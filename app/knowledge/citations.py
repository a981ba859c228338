"""Checks the citations of an answer against the passages that they name.

The statement before a `[n]` must share its telling words and all its numbers with passage n. That
finds invented numbers and statements from nowhere; it does not understand what is said, so a
statement turned into its opposite passes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.knowledge.cited_text import Mark, marks
from app.knowledge.numbers import numbers, readings
from app.knowledge.passage import Passage
from app.knowledge.sources import Citation
from app.knowledge.words import CJK, folded, terms

LEAST_SHARE = 0.5
"""Of a statement's telling words that its passages hold; answers say things in their own words."""
STEM = 5
"""Letters that two forms of a word share: `fees` and `feed` count as one, `costs` and `cost` too.
"""
LEAST_TELLING = 2
"""Words and numbers of a sentence whose source is looked for."""
LEAST_LETTERS = 4
"""Shorter words say little."""

ABOUT_SOURCES = re.compile("according|(?:citation|document|passage|reference|source)s?")
"""With these words an answer speaks about its documents, and says nothing of what they hold."""
NAMED = re.compile(r"\b(?:doc(?:ument)?|passage|source|text)s?\.? \d{1,3}\b", re.IGNORECASE)
LISTED = re.compile("^[\\s>*•#-]*(?:[(（]?\\d{1,3}(?:\\.(?=\\s)|[)）、])|[①-⑳])", re.MULTILINE)
"""`document 2`, and the number of a line in a list: numbers that no document has to hold."""

SENTENCE_END = re.compile("[.!?…][\"'”’)\\]]*(?=\\s)|[。！？；][”’」』）]*|\n")


@dataclass(frozen=True, slots=True)
class Statement:
    """What one citation, or several beside each other, stand for."""

    text: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """The words and numbers of a text that can be looked for elsewhere."""

    words: frozenset[str]
    numbers: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.words or self.numbers)


def check(text: str, question: str, passages: Sequence[Passage]) -> tuple[Citation, ...]:
    """One citation for each number in `text` that names a passage, by number; where none does, one
    for each passage that a sentence is clearly from.
    """
    asked = said_in(question)
    statements: dict[int, list[Statement]] = {}
    for statement in statements_of(text):
        for number in statement.numbers:
            if 1 <= number <= len(passages):
                statements.setdefault(number, []).append(statement)
    named = bool(statements)
    if not named:
        statements = origins(text, asked, passages)
    found = (citation(number, statements[number], asked, passages) for number in sorted(statements))
    return tuple(found if named else (replace(one, named=False) for one in found))


def origins(text: str, asked: Content, passages: Sequence[Passage]) -> dict[int, list[Statement]]:
    """By passage the sentences whose telling words and numbers one sentence of it holds, its words
    also the title above; of several passages the first.
    """
    contents = [list(sentence_contents(passage)) for passage in passages]
    found: dict[int, list[Statement]] = {}
    for start, end in sentences(text):
        said = said_in(text[start:end])
        telling = Content(said.words - asked.words, said.numbers - asked.numbers)
        if not telling or len(said.words) + len(said.numbers) < LEAST_TELLING:
            continue
        for number, held in enumerate(contents, 1):
            if any(said.numbers <= one.numbers and said.words <= one.words for one in held):
                found.setdefault(number, []).append(Statement(text[start:end], (number,)))
                break
    return found


def sentence_contents(passage: Passage) -> Iterator[Content]:
    """Of each of its sentences, with the words of what stands above it."""
    above = held_in(" ".join((passage.name, *passage.headings, passage.header))).words
    for start, end in sentences(passage.text):
        own = held_in(passage.text[start:end])
        yield Content(own.words | above, own.numbers)


def citation(
    number: int, statements: Sequence[Statement], asked: Content, passages: Sequence[Passage]
) -> Citation:
    passage = passages[number - 1]
    supported = all(is_supported(one, number, asked, passages) for one in statements)
    found = Citation(
        number=number,
        place=passage.place,
        path=str(passage.path),
        page=passage.page,
        first_line=passage.first_line,
        last_line=passage.last_line,
        start=passage.start,
        end=passage.end,
        supported=supported,
        last_page=passage.last_page,
    )
    if passage.is_notes:  # Where in the document a note is from nobody knows.
        return found
    start, end = narrowed(passage, [said_in(one.text) for one in statements])
    first, last = lines(passage, start, end)
    return replace(
        found,
        page=page_at(passage, start),
        first_line=first,
        last_line=last,
        start=passage.start + start,
        end=passage.start + end,
        last_page=page_at(passage, end - 1),
    )


# ---- statements


def statements_of(text: str) -> Iterator[Statement]:
    """The text before each citation, up to the sentence's start or to the citation before it.

    A citation behind a full stop stands for the sentence before it; what follows the last citation
    of a sentence belongs to that citation.
    """
    groups = grouped(text, list(marks(text)))
    for index, group in enumerate(groups):
        floor = groups[index - 1][-1].end if index else 0
        start, end = group[0].start, group[-1].end
        begin = sentence_start(text, floor, start)
        following = groups[index + 1][0].start if index + 1 < len(groups) else len(text)
        stop = sentence_end(text, end, following)
        rest = text[end:stop] if stop < following or following == len(text) else ""
        if SENTENCE_END.search(text[begin:start].rstrip() + " "):
            rest = ""
        numbers = tuple(number for mark in group for number in mark.numbers)
        yield Statement(f"{text[begin:start]} {rest}".strip(), numbers)


def grouped(text: str, found: Iterable[Mark]) -> list[list[Mark]]:
    """Citations with nothing between them but spaces and commas stand together."""
    groups: list[list[Mark]] = []
    for mark in found:
        if groups and not text[groups[-1][-1].end : mark.start].strip(" \t,;、，"):
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return groups


def sentence_start(text: str, floor: int, place: int) -> int:
    """Where the sentence begins that ends at, or goes over, `place`."""
    body = text[floor:place].rstrip()
    ends = [match.end() for match in SENTENCE_END.finditer(body + " ") if match.end() < len(body)]
    return floor + (ends[-1] if ends else 0)


def sentence_end(text: str, place: int, limit: int) -> int:
    found = SENTENCE_END.search(text, place, limit)
    return found.end() if found else limit


# ---- support


def is_supported(
    statement: Statement, number: int, asked: Content, passages: Sequence[Passage]
) -> bool:
    """Whether the passage has a part in it, and all cited passages together hold it."""
    said = said_in(statement.text)
    new = Content(said.words - asked.words, said.numbers - asked.numbers)
    telling = new or said
    if not telling:
        return True
    own = held_in(whole(passages[number - 1]))
    cited = [passages[one - 1] for one in statement.numbers if 1 <= one <= len(passages)]
    together = held_in(" ".join(map(whole, cited)))
    # A number that the question gave may stand beside something new; alone it is what was asked.
    given = asked.numbers if new else frozenset()
    if not said.numbers <= together.numbers | given:
        return False
    if not (telling.words & own.words or telling.numbers & own.numbers):
        return False
    count = len(telling.words) + len(telling.numbers)
    held = len(telling.words & together.words) + len(telling.numbers)
    return held >= LEAST_SHARE * count


def whole(passage: Passage) -> str:
    """All that the model read of a passage."""
    return " ".join((passage.name, *passage.headings, passage.header, passage.text))


def said_in(text: str) -> Content:
    """What a statement or a question says."""
    plain = folded(NAMED.sub(" ", LISTED.sub(" ", text)))
    return Content(words_of(plain), numbers(plain))


def held_in(text: str) -> Content:
    """What can be said from a part of a document."""
    plain = folded(text)
    return Content(words_of(plain), readings(plain))


def words_of(plain: str) -> frozenset[str]:
    words = (word for word in terms_of(plain) if not word.isdigit())
    return frozenset(map(stem, filter(is_telling, words)))


def terms_of(text: str) -> Iterator[str]:
    """All words; a search takes only the first of a long text."""
    for line in re.split(r"(?<=[.!?。！？\n])", text):
        words = line.split()
        for start in range(0, len(words), 32):
            yield from terms(" ".join(words[start : start + 32]))


def is_telling(word: str) -> bool:
    is_long = len(word) >= LEAST_LETTERS or CJK.search(word) is not None
    return is_long and ABOUT_SOURCES.fullmatch(word) is None


def stem(word: str) -> str:
    return word if CJK.search(word) else word[:STEM]


# ---- places


def narrowed(passage: Passage, said: Collection[Content]) -> tuple[int, int]:
    """The stretch of the passage's text that holds all that it shares with the statements: one
    sentence, or the whole.
    """
    own = held_in(passage.text)
    shared = [Content(one.words & own.words, one.numbers & own.numbers) for one in said]
    if not all(shared):
        return 0, len(passage.text)
    for start, end in sentences(passage.text):
        here = held_in(passage.text[start:end])
        if all(one.words <= here.words and one.numbers <= here.numbers for one in shared):
            return start, end
    return 0, len(passage.text)


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Stretches without white space at their ends."""
    start = 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        piece = text[start:end]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
        start = end


def lines(passage: Passage, start: int, end: int) -> tuple[int | None, int | None]:
    if passage.first_line is None:
        return None, None
    first = passage.first_line + passage.text.count("\n", 0, start)
    return first, first + passage.text.count("\n", start, end)


def page_at(passage: Passage, place: int) -> int | None:
    """The page on which a character of the passage's text stands."""
    page = passage.page
    for start, number in passage.page_starts:
        if start <= passage.start + place:
            page = number
    return page
