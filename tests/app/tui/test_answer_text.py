"""Laws of drawn Markdown: growing equals whole, nothing is lost, nothing is too wide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.widgets.answer_text import AnswerText
from app.widgets.block_renderer import BlockRenderer
from app.widgets.graphemes import last_length

COLOURS = dict.fromkeys(
    ("primary", "faint", "rule", "accent", "panel", "foreground"), "#808080"
)  # fmt: skip

FRAGMENTS = (
    "words ", "**bold**", "`code`", "\n", "\n\n", "- point\n", "  - deeper\n", "1. one\n",
    "> quoted\n", "# head\n", "```py\n", "x = 1\n", "```\n", "| a | b |\n", "|---|---|\n",
    "| 1 | 2 |\n", "---\n",
    "<b>html</b>", "漢字", "![alt](http://x/y.png)", "[go](https://example.org/a)", "***",
    "\t", "    ",
)  # fmt: skip

texts = st.lists(st.sampled_from(FRAGMENTS), max_size=40)


def lines(answer: AnswerText, width: int) -> list[str]:
    answer._draw_blocks(BlockRenderer(width, COLOURS, dark=True))
    return [line.text for line in answer._lines]


def grown(pieces: list[str], width: int) -> list[str]:
    answer = AnswerText()
    renderer = BlockRenderer(width, COLOURS, dark=True)
    for piece in pieces:
        answer.add(piece)
        if answer.source.strip():
            answer._draw_blocks(renderer)
    return [line.text for line in answer._lines]


@settings(deadline=None)
@given(texts)
def test_a_text_that_grows_looks_like_the_whole_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    if text.strip():
        assert grown(pieces, 60) == lines(AnswerText(text), 60)


@settings(deadline=None)
@given(texts, st.integers(12, 90))
def test_no_line_is_wider_than_the_view(pieces: list[str], width: int) -> None:
    answer = AnswerText("".join(pieces))
    answer._draw_blocks(BlockRenderer(width, COLOURS, dark=True))
    assert [line for line in answer._lines if line.cell_length > width] == []


def test_a_list_of_sources_is_shown_and_its_numbers_stay() -> None:
    text = "The fee is 5 [1].\n\n[1]: fees.md:3\n[2]: http://evil.example/x"
    shown = "\n".join(lines(AnswerText(text), 60))
    assert "The fee is 5 [1]." in shown
    assert "[1]: fees.md:3" in shown
    assert "[2]: http://evil.example/x" in shown


@settings(deadline=None)
@given(st.lists(st.from_regex(r"[a-z]{1,12}", fullmatch=True), min_size=1, max_size=30))
def test_all_words_are_shown_at_any_width(words: list[str]) -> None:
    table = "| a | b |\n|---|---|\n" + "".join(f"| {word} | {word} |\n" for word in words)
    shown = "".join("".join(lines(AnswerText(table), 30)).split())
    assert all(word in shown for word in words)


@pytest.mark.parametrize(
    "character",
    [
        "a",
        "é",
        "e\u0301",
        "👨‍👩‍👧‍👦",
        "🇩🇪",
        "1\ufe0f\u20e3",
        "👍🏽",
        "한",
        "नि",
        "🏴\U000e0067\U000e0062\U000e007f",
    ],
)
def test_backspace_takes_one_visible_character(character: str) -> None:
    assert last_length("x" + character) == len(character)
    assert last_length("🇫🇷" + character) == len(character)
