"""Laws of leaving out turns: enough, oldest first, and in pieces that stay for many turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.fitting import answer_room, least_room, turns_to_drop

SIZES = st.lists(st.integers(0, 500), max_size=30)


@given(SIZES, st.integers(-10, 5000), st.integers(1, 1000))
def test_enough_goes_where_there_is_enough(sizes: list[int], excess: int, piece: int) -> None:
    count = turns_to_drop(sizes, excess, piece)
    assert 0 <= count <= len(sizes)
    assert sum(sizes[:count]) >= min(max(excess, 0), sum(sizes))


@given(SIZES, st.integers(1, 5000), st.integers(1, 1000))
def test_no_turn_goes_beyond_the_piece(sizes: list[int], excess: int, piece: int) -> None:
    count = turns_to_drop(sizes, excess, piece)
    if count:
        assert sum(sizes[: count - 1]) < excess + piece


@given(SIZES, st.integers(0, 5000), st.integers(1, 1000))
def test_a_little_more_excess_changes_nothing_within_a_piece(
    sizes: list[int], pieces: int, piece: int
) -> None:
    first = pieces * piece + 1
    counts = {turns_to_drop(sizes, excess, piece) for excess in (first, first + piece - 1)}
    assert len(counts) == 1


@given(st.integers(1, 10**6), st.one_of(st.none(), st.integers(0, 10**9)))
def test_the_room_for_an_answer_is_never_the_whole_context(
    context: int, max_tokens: int | None
) -> None:
    room = answer_room(context, max_tokens)
    assert 1 <= room <= max(context // 2, 1)
    assert 1 <= least_room(context, max_tokens) <= room
