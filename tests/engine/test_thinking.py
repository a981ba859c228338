"""Reasoning and answer, from tags that are tokens and from tags that are text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.scripted_vocabulary import THINK_CLOSE, THINK_OPEN, ScriptedVocabulary
from engine.output.answer import AnswerText

TAGS = ("<think>", "</think>")


def split(
    ids: list[int], tokens: bool, inside: bool, stop: tuple[str, ...] = ()
) -> tuple[str, str, bool]:
    """(text, reasoning, unfinished); what is streamed must be what is gathered."""
    answer = AnswerText(ScriptedVocabulary(think_tokens=tokens), stop, TAGS, inside)
    pieces = []
    for token in ids:
        pieces.append(answer.push(token))
        if answer.stop_string is not None:
            break
    pieces.append(answer.finish())
    assert "".join(piece.text for piece in pieces) == answer.text
    assert "".join(piece.reasoning for piece in pieces) == answer.reasoning
    return answer.text, answer.reasoning, answer.reasoning_unfinished


CASES = [
    pytest.param("plan</think>yes", True, ("yes", "plan", False), id="prompt wrote the tag"),
    pytest.param("<think>plan</think>yes", False, ("yes", "plan", False), id="whole block"),
    pytest.param("\n <think>\nplan</think>\n\nyes", False, ("yes", "plan", False), id="breaks"),
    pytest.param("no block", False, ("no block", "", False), id="none"),
    pytest.param("  no block", False, ("  no block", "", False), id="leading spaces"),
    pytest.param("plan without end", True, ("", "plan without end", True), id="never closes"),
    pytest.param("<think>open", False, ("", "open", True), id="opens, never closes"),
    pytest.param("<thin", False, ("<thin", "", False), id="half an opening tag"),
    pytest.param("plan</thi", True, ("", "plan</thi", True), id="half a closing tag"),
    pytest.param(
        "<think>a</think>it is </think>, said", False, ("it is </think>, said", "a", False), id="q"
    ),
    pytest.param("say <think>x", False, ("say <think>x", "", False), id="quoted opening tag"),
    pytest.param("   ", False, ("   ", "", False), id="only spaces"),
]


@pytest.mark.parametrize(("raw", "inside", "expected"), CASES)
def test_text_tags(raw: str, inside: bool, expected: tuple[str, str, bool]) -> None:
    assert split(list(raw.encode()), False, inside) == expected


def test_token_tags_are_recognised_by_their_ids_alone() -> None:
    ids = [THINK_OPEN, *b"a </think> b", THINK_CLOSE, *b"\n<think>yes</think>"]
    assert split(ids, True, False) == ("<think>yes</think>", "a </think> b", False)
    assert split([*b"plan", THINK_CLOSE, *b"yes"], True, True) == ("yes", "plan", False)
    assert split([*b"plan"], True, True) == ("", "plan", True)
    assert split([*b"yes", THINK_CLOSE, *b"!"], True, False) == ("yes!", "", False)


def test_a_second_block_of_tokens_is_reasoning_again() -> None:
    ids = [THINK_OPEN, *b"a", THINK_CLOSE, *b"b", THINK_OPEN, *b"c", THINK_CLOSE, *b"d"]
    assert split(ids, True, False) == ("bd", "ac", False)


def test_half_a_character_before_a_tag_token_is_not_lost() -> None:
    assert split([*b"a\xf0", THINK_CLOSE, *b"b"], True, True) == ("b", "a\ufffd", False)


def test_a_stop_string_in_the_block_ends_the_answer_there() -> None:
    assert split(list(b"plan STOP</think>x"), False, True, ("STOP",)) == ("", "plan ", True)
    assert split(list(b"plan</think>xSTOPy"), False, True, ("STOP",)) == ("x", "plan", False)


@given(st.lists(st.sampled_from(["<think>", "</think>", "</thi", "a", "\n", " ", "ж"]), max_size=9))
def test_nothing_is_lost_or_shown_twice(parts: list[str]) -> None:
    raw = "".join(parts)
    text, reasoning, _ = split(list(raw.encode()), False, False)
    for letter in "aж":
        assert (reasoning + text).count(letter) == raw.count(letter)
    opened = raw.lstrip().startswith("<think>")
    assert opened or (text == raw and reasoning == "")
