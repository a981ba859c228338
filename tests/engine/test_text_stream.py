"""Characters that are split over tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.output.text_stream import TextStream, half_character


def stream(pieces: list[bytes]) -> list[str]:
    characters = TextStream()
    return [*(characters.push(piece) for piece in pieces), characters.finish()]


@given(st.text(), st.data())
def test_any_cut_of_whole_text_gives_the_text_without_a_mark_of_its_own(
    text: str, data: st.DataObject
) -> None:
    raw = text.encode("utf-8", "ignore")
    whole = raw.decode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    shown = stream(pieces)
    assert "".join(shown) == whole
    assert sum(piece.count("\ufffd") for piece in shown) == whole.count("\ufffd")


@given(st.binary(max_size=40), st.data())
def test_any_bytes_in_any_cut_equal_decoding_them_at_once(raw: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert "".join(stream(pieces)) == raw.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([b"\xf0\x9f", b"\x94\xa5"], ["", "🔥", ""]),
        ([b"\xd0", b"\xb6"], ["", "ж", ""]),
        ([b"\xe4", b"\xb8", b"\xad", b" x"], ["", "", "中", " x", ""]),
        ([b"ok\xf0\x9f\x94"], ["ok", "\ufffd"]),
        ([b"a\xff", b"b"], ["a\ufffd", "b", ""]),
    ],
)
def test_half_characters_wait_and_a_cut_tail_gives_one_mark(
    pieces: list[bytes], shown: list[str]
) -> None:
    assert stream(pieces) == shown


@given(st.text(), st.integers(0, 200), st.integers(1, 5))
def test_a_stream_begins_with_the_half_that_earlier_tokens_left(
    text: str, cut: int, size: int
) -> None:
    raw = text.encode("utf-8", "ignore")
    before, after = raw[:cut], raw[cut:]
    pieces = [before[at : at + size] for at in range(0, len(before), size)]
    first = TextStream()
    shown = "".join(map(first.push, pieces))
    second = TextStream(half_character(reversed(range(len(pieces))), pieces.__getitem__))
    assert shown + second.push(after) == raw.decode()


@pytest.mark.parametrize(
    ("pieces", "half"),
    [
        ([b"ok \xf0", b"\x9f"], b"\xf0\x9f"),
        ([b"ok \xf0\x9f\x94"], b"\xf0\x9f\x94"),
        ([b"\xf0", b"\x9f", b"\x94", b"\xa5"], b""),
        ([b"\xf0\x9f", b""], b""),
        ([b"\xf0a"], b""),
        ([b"\x9f\x94"], b""),
        ([], b""),
    ],
)
def test_half_a_character_is_what_the_last_tokens_begin(pieces: list[bytes], half: bytes) -> None:
    assert half_character(reversed(range(len(pieces))), pieces.__getitem__) == half
