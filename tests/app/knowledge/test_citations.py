"""Laws of citations: what is shown of an answer, what is checked, and where it points."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.knowledge.citations import check, narrowed, statements_of
from app.knowledge.cited_text import CitedText, known_only, marks
from tests.app.fake_base import passage

PIECES = (
    "[1]",
    "[9]",
    "[1, 9]",
    "[2-4]",
    " ",
    "`",
    "```",
    "``",
    "````",
    "~~~",
    "\n",
    "a",
    "[",
    "]",
    "1",
    ",",
    "【7】",
    "[1",
    "  [9]",
    "[^9]",
    "[^",
    "c1482fd2",
    "<<C1482fd2",
    "<",
    ">",
    ">>",
    "c14",
)
MARK = "c1482fd2"
texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)

FEES = passage("# Fees\nThe annual fee is 1,200 euros.\nIt is due in March.", "fees.md", 10)
DOGS = passage("Dogs stay out of the garden after 10 pm.", "rules.md")
CHINESE = passage("年费为四十欧元。每年三月支付。", "费用.md")
ALL = (FEES, DOGS, CHINESE)


@example("[1]```\n```[1]", [4, 3], 0)
@example("[[[1]1", [3], 0)
@example("[1]`[1\n[1]", [3, 5], 0)
@example("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]", [40], 3)
@given(texts, st.lists(st.integers(1, 5)), st.integers(0, 3))
def test_a_stream_shows_what_the_whole_shows(text: str, sizes: list[int], known: int) -> None:
    stream = CitedText(known, MARK)
    shown = ""
    rest = text
    for size in sizes:
        shown += stream.add(rest[:size])
        rest = rest[size:]
    shown += stream.add(rest) + stream.end()
    assert shown == known_only(text, known, MARK)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<<c1482fd2\nForty euros. [1]\nc1482fd2>>", "\nForty euros. [1]\n"),
        ("Forty euros [C1482FD2] a year, c1482fd2.", "Forty euros  a year, ."),
        ("A c1482fd and a << b >> c.", "A c1482fd and a << b >> c."),
    ],
)
def test_the_mark_of_a_fence_is_never_shown(text: str, shown: str) -> None:
    assert known_only(text, 3, MARK) == shown
    stream = CitedText(3, MARK)
    assert "".join(map(stream.add, text)) + stream.end() == shown


@example("[1]```\n```[1]", 0)
@example("[[1]1]", 0)
@given(texts, st.integers(0, 3))
def test_only_known_numbers_are_left(text: str, known: int) -> None:
    shown = known_only(text, known)
    numbers = [number for mark in marks(shown) for number in mark.numbers]
    assert all(1 <= number <= known for number in numbers)


@pytest.mark.parametrize(
    ("text", "shown", "numbers"),
    [
        ("a [^1] b [^9].", "a [^1] b.", [1]),
        ("a [1—3] b [2‑9].", "a [1—3] b [2, 3].", [1, 2, 3, 2, 3]),
        ("``a[9]`` b [9]", "``a[9]`` b", []),
        ("````\n```\na[9]\n```\n````\nb [9]", "````\n```\na[9]\n```\n````\nb", []),
        ("表【2】和［9］。[１]", "表【2】和。[１]", [2, 1]),
    ],
)
def test_citations_are_known_however_they_are_written_and_code_is_left(
    text: str, shown: str, numbers: list[int]
) -> None:
    assert known_only(text, 3) == shown
    assert [number for mark in marks(shown) for number in mark.numbers] == numbers


@pytest.mark.parametrize(
    ("said", "asked", "supported"),
    [
        ("The fee is 1200 euros [1].", "What is the annual fee?", [True]),
        ("The fee is 1,300 euros [1].", "What is the annual fee?", [False]),
        ("It is due in March. [1]", "When is the fee due?", [True]),
        ("Cats are purple animals from Mars [2].", "What are cats?", [False]),
        ("Dogs stay out of the garden [1].", "What about pets?", [False]),
        ("年费为四十欧元[3]。", "年费是多少？", [True]),
        ("年費為四十歐元[3]。", "年費是多少？", [True]),
        ("费用是九十美金[3]。", "年费是多少？", [False]),
        ("Due in March [1], and no dogs after 10 pm [2].", "Rules?", [True, True]),
        ("In March the garden is closed to dogs [1][2].", "Rules?", [True, True]),
        ("`x[2]` is code.", "Rules?", []),
        ("The fee is 1.200 euros [1].", "What is the annual fee?", [True]),
        ("年费为40欧元[3]。", "费用？", [True]),
        ("年费为五十欧元[3]。", "费用？", [False]),
        ("3) Document 2 says: dogs stay out after 10 pm [2].", "Rules?", [True]),
        ("Dogs stay out after 10 pm [2].\n\nSources: [1], [2]", "Rules?", [True, True]),
        ("The annual fee is 1,300 euros [1].", "Is the annual fee 1,300 euros?", [False]),
        ("Not 1,300 but 1,200 euros [1].", "Is the annual fee 1,300 euros?", [True]),
    ],
)
def test_a_statement_must_share_its_telling_words_and_numbers(
    said: str, asked: str, supported: list[bool]
) -> None:
    found = check(said, asked, ALL)
    assert [one.supported for one in found] == supported
    assert all(one.named for one in found)


def test_one_false_statement_makes_its_source_unsupported() -> None:
    (one,) = check("Due in March [1]. It costs 7 dollars a week [1].", "Fee?", ALL)
    assert not one.supported


def test_a_citation_stands_for_the_sentence_before_it_or_around_it() -> None:
    text = "First said. Second said [1]. Third said.[2] Fourth [3] goes on. Fifth."
    assert [(one.text, one.numbers) for one in statements_of(text)] == [
        ("Second said .", (1,)),
        ("Third said.", (2,)),
        ("Fourth  goes on.", (3,)),
    ]


def test_a_citation_points_at_the_one_sentence_that_holds_it_all() -> None:
    (one,) = check("It is due in March [1].", "When?", ALL)
    assert (one.first_line, one.last_line) == (12, 12)
    assert FEES.text[one.start - FEES.start : one.end - FEES.start] == "It is due in March."
    (both,) = check("1,200 euros are due in March [1].", "When?", ALL)
    assert (both.first_line, both.last_line) == (10, 12)
    assert narrowed(FEES, []) != (0, 0)


def test_a_citation_names_the_page_that_its_sentence_is_on() -> None:
    place = FEES.text.index("It is due")
    paged = replace(
        FEES, start=500, page=3, last_page=4, first_line=None, page_starts=((500 + place, 4),)
    )
    (first,) = check("The fee is 1,200 euros [1].", "Fee?", (paged,))
    (second,) = check("It is due in March [1].", "When?", (paged,))
    assert (first.page, second.page) == (3, 4)
    assert (first.first_line, second.start) == (None, 500 + place)


def test_sources_of_an_answer_that_names_none_are_found_where_it_is_sure() -> None:
    found = check("The annual fee is 1200 euros. It may rise soon.", "What does it cost?", ALL)
    assert [(one.number, one.named, one.supported) for one in found] == [(1, False, True)]
    assert check("The annual fee is 1,300 euros.", "Cost?", ALL) == ()
    assert check("Yes.", "Is it due in March?", ALL) == ()
    parts = (replace(FEES, text="## Part 1\n\nThe letter answers the mayor.\nIt has 31 pages."),)
    assert check("The answer is 1.", "How many pages?", parts) == ()
