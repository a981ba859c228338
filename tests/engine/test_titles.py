"""Laws of titles: one short printable line, whatever the model wrote."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.titles import MAX_CHARACTERS, clean_title


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Capital of France", "Capital of France"),
        ('"Capital of France."', "Capital of France"),
        ("Title: Capital of France\nMore", "Capital of France"),
        ("**Chat title:** Capital of France", "Capital of France"),
        ("\n\n# Capital   of\tFrance\n", "Capital of France"),
        ("Titles in the army", "Titles in the army"),
        ("L'été", "L'été"),
        ("\x1b[31mred\x07", "[31mred"),
        ('""', ""),
        ("", ""),
    ],
)
def test_labels_quotes_and_further_lines_go(written: str, title: str) -> None:
    assert clean_title(written) == title


@given(st.text(max_size=300))
@example("0 :")
def test_any_text_gives_one_short_printable_line(written: str) -> None:
    title = clean_title(written)
    assert title.isprintable()
    assert len(title) <= MAX_CHARACTERS + 1
    assert title == title.strip()
    assert clean_title(title).isprintable()
