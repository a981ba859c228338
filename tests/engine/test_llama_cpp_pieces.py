"""Laws of cutting rows into native calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.base import Row
from engine.backends.llama_cpp.pieces import calls, sizes


@given(st.integers(2, 5000), st.sampled_from([512, 500, 2048]), st.sampled_from([32, 64, 128, 256]))
def test_no_micro_batch_of_one_token_is_left(count: int, call: int, micro: int) -> None:
    pieces = sizes(count, call, micro)
    assert sum(pieces) == count
    assert all(1 < size <= max(call, micro) for size in pieces)
    assert all(size % micro != 1 for size in pieces)


@given(st.lists(st.integers(1, 700), min_size=1, max_size=6))
def test_prefill_rows_are_alone_and_decode_rows_together_at_the_end(lengths: list[int]) -> None:
    rows = [
        Row(index, 10 * index, tuple(range(length)), True) for index, length in enumerate(lengths)
    ]
    made = list(calls(rows, 512, 128))
    singles = [index for index, length in enumerate(lengths) if length == 1]
    if singles:
        assert [piece.row for piece in made.pop()] == singles
    assert all(len(call) == 1 for call in made)
    for index, row in enumerate(rows):
        pieces = [piece for call in made for piece in call if piece.row == index]
        if len(row.ids) > 1:
            assert sum((piece.ids for piece in pieces), ()) == row.ids
            assert [piece.wants_scores for piece in pieces] == [False] * (len(pieces) - 1) + [True]
            starts = [piece.start for piece in pieces]
            assert starts[0] == row.start
            assert starts == sorted(starts)


@pytest.mark.parametrize("count", [129, 257, 513, 641])
def test_a_left_over_token_is_shared_between_the_last_two_pieces(count: int) -> None:
    last_two = sizes(count, 512, 128)[-2:]
    assert last_two == [65, 64]
