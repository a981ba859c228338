"""Laws of numbers that are compared: by value, however they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.numbers import counted, numbers, readings

DIGITS = "零一二三四五六七八九"


def spelled(value: int) -> str:
    """An independent writing of a number below 10,000 in Chinese."""
    text, was_zero = "", False
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = value // unit % 10
        if digit:
            text += ("零" if was_zero and text else "") + DIGITS[digit] + name
        was_zero = not digit
    return text or "零"


@given(st.integers(1, 9999), st.integers(0, 9999))
def test_a_chinese_numeral_has_the_value_that_it_was_written_for(high: int, low: int) -> None:
    assert counted(spelled(high)) == high
    zero = "零" if 0 < low < 1000 else ""
    text = f"{spelled(high)}万" + (zero + spelled(low) if low else "")
    assert counted(text) == 10_000 * high + low


@given(st.integers(1000, 10**12), st.sampled_from(",.' "))
def test_groups_of_three_are_one_number(value: int, separator: str) -> None:
    assert numbers(f"It is {value:,}.".replace(",", separator)) == {str(value)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,234.50 and 1.234,50", {"1234.50"}),
        ("0.125", {"0.125"}),
        ("12.0", {"12"}),
        ("05.03.2024, 2024-3-5, 二〇二四年三月五日", {"2024", "3", "5"}),
        ("百分之五, 5%", {"5"}),
        ("4万 3.5亿 两万五", {"40000", "350000000", "25000"}),
        ("一亿二千万", {"120000000"}),
        ("一个人万一十分七八十", set()),
        ("in 2024 120 people", {"2024", "120"}),
    ],
)
def test_what_a_text_says(text: str, said: set[str]) -> None:
    assert numbers(text) == said


def test_numbers_beside_each_other_may_be_meant_apart() -> None:
    assert readings("100 200") == {"100", "200", "100200"}
    assert {"34", "120"} <= readings("Anna,34,120\nBob,35,121")
    assert readings("It costs 1,200, or so.") == {"1200"}
