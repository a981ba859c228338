"""Laws of the sanitiser: nothing that acts gets through, nothing ordinary is lost."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sanitize import clean, single_line

NASTY = st.sampled_from(
    [
        *map(chr, range(0xA0)),
        *"\u00ad\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069",
        *"\ufe0e\ufe0f\ufeff\ufdd0\uffff\ud800\udc80\udfff\U000e0041\U000e007f\U000e0100",
        *"\U0001f3f4\U0001f468\U0001f469\u0915\u0628a \n",
    ]
)
TEXTS = st.lists(st.one_of(NASTY, st.characters()), max_size=30).map("".join)

SHAPING = re.compile("[\u200c\u200d\ufe00-\ufe0f\u180b-\u180d\u180f\U000e0020-\U000e01ef]")
"""May stand in the output, by their place."""
SHOWN_FORMATS = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
    + "".join(map(chr, range(0x13430, 0x13440)))
)
"""Of the category "format", but with a shape of their own: signs around Arabic, Kaithi and
Egyptian numbers."""


def is_forbidden(character: str) -> bool:
    """By Unicode's categories, independent of the sanitiser's own table."""
    if character in "\n\t" or SHAPING.match(character) or character in SHOWN_FORMATS:
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


@given(TEXTS)
def test_output_never_holds_a_forbidden_code_point(text: str) -> None:
    assert not [hex(ord(one)) for one in clean(text) if is_forbidden(one)]


@given(TEXTS)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean(clean(text)) == clean(text)
    assert single_line(single_line(text)) == single_line(text)


@given(TEXTS)
def test_output_can_always_be_encoded(text: str) -> None:
    clean(text).encode()


@given(
    st.text(
        st.characters(
            categories=("L", "N", "P", "S", "Zs"), exclude_characters="\u115f\u1160\u3164\uffa0"
        )
    )
)
def test_visible_text_is_unchanged(text: str) -> None:
    assert clean(text) == text


@given(TEXTS, st.integers(2, 20))
def test_a_single_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = single_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert "\t" not in line


@pytest.mark.parametrize(
    "text",
    [
        "plain\n\ttext",
        "mit Umlauten äöü, e\u0301",
        "👨\u200d👩\u200d👧\u200d👦 family",
        "👩🏽\u200d🚀 astronaut with a skin tone",
        "❤\ufe0f\u200d🔥 heart on fire",
        "🏳\ufe0f\u200d🌈",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f Scotland",
        "1\ufe0f\u20e3 keycap",
        "🇩🇪 flag",
        "می\u200cخواهم",
        "क्\u200dष and क्\u200cष",
        "ශ්\u200dරී",
        "葛\U000e0100城",
        "שלום עולם, مرحبا بالعالم",
        "한국어 조선말 ㅋㅋ",
    ],
)
def test_ordinary_text_of_all_scripts_passes(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b]0;title\x07", "␛[31mred␛]0;title␇"),
        ("\x9b31m", "<U+009B>31m"),
        ("a\x00b\x7f\x08", "a␀b␡␈"),
        ("10%\r20%\r\nend", "10%\n20%\nend"),
        ("a\u2028b", "a\nb"),
        ("user\u202egpj.exe", "user<U+202E>gpj.exe"),
        ("pass\u200bword", "pass<U+200B>word"),
        ("pass\u200dword", "pass<U+200D>word"),
        ("hidden \U000e0041\U000e0042", "hidden <U+E0041><U+E0042>"),
        ("x\ufe0f\ufe0f", "x\ufe0f<U+FE0F>"),
        ("b\udcff.gguf", "b\\xff.gguf"),
        ("\ud83d", "<U+D83D>"),
        ("\ufeffstart", "start"),
        ("Silben\u00adtrennung", "Silbentrennung"),
    ],
)
def test_what_acts_or_hides_becomes_visible(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_cut_line_says_so() -> None:
    assert single_line("one\ntwo\tthree   four", 9) == "one two…"
