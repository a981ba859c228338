"""Stop strings, whatever way the text was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.output.stopping import StopStrings


def stream(strings: tuple[str, ...], pieces: list[str]) -> tuple[str, str | None]:
    stop = StopStrings(strings)
    shown = ""
    for piece in pieces:
        shown += stop.push(piece)
        if stop.found is not None:
            return shown, stop.found
    return shown + stop.finish(), None


def reference(strings: tuple[str, ...], text: str) -> tuple[str, str | None]:
    """Read character by character: the string that is complete first wins, of those the longest."""
    for end in range(1, len(text) + 1):
        complete = [s for s in strings if s and text[:end].endswith(s)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(
    st.lists(st.text("ab", min_size=0, max_size=4), max_size=4).map(tuple),
    st.lists(st.text("abc", max_size=5), max_size=12),
)
def test_equals_reading_character_by_character(strings: tuple[str, ...], pieces: list[str]) -> None:
    assert stream(strings, pieces) == reference(strings, "".join(pieces))


def test_no_beginning_of_a_stop_string_is_shown_before_it_is_clear() -> None:
    stop = StopStrings(("END!",))
    assert stop.push("the EN") == "the "
    assert stop.push("D") == ""
    assert stop.push("O EN") == "ENDO "
    assert stop.push("D!more") == ""
    assert stop.found == "END!"


@pytest.mark.parametrize("strings", [(), ("",)])
def test_without_stop_strings_text_passes_at_once(strings: tuple[str, ...]) -> None:
    stop = StopStrings(strings)
    assert stop.push("as it is") == "as it is"
    assert stop.finish() == ""
