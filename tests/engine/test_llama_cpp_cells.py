"""Laws of the cell mirror against a plain model: one set of cells for each sequence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.backends.llama_cpp.cells import Cells

SIZE = 600

actions = st.lists(
    st.tuples(st.sampled_from(["append", "share", "cut"]), st.integers(0, 3), st.integers(1, 90)),
    max_size=25,
)


@given(actions)
def test_used_cells_and_order_follow_from_what_was_done(steps: list[tuple[str, int, int]]) -> None:
    cells = Cells(SIZE)
    lengths = dict.fromkeys(range(4), 0)
    for action, sequence, count in steps:
        other = (sequence + 1) % 4
        if action == "append" and cells.used + count <= SIZE:
            cells.append(sequence, count)
            lengths[sequence] += count
        elif action == "cut":
            cells.cut(sequence, count)
            lengths[sequence] = min(lengths[sequence], count)
        elif action == "share" and lengths[sequence]:
            cells.cut(other, 0)
            cells.share(sequence, other, count)
            lengths[other] = min(lengths[sequence], count)
        live = [length for length in lengths.values() if length]
        assert max(live, default=0) <= cells.used <= sum(live)
        assert cells.used <= cells.highest <= SIZE
    for sequence in range(4):
        cells.cut(sequence, 0)
    assert (cells.used, cells.highest) == (0, 0)


def test_a_lone_sequence_lies_in_order_and_one_behind_a_hole_does_not() -> None:
    cells = Cells(1024)
    cells.append(0, 200)
    cells.append(1, 50)
    assert cells.in_order(0)
    assert not cells.in_order(1)
    cells.cut(0, 0)
    assert not cells.is_scattered()
    assert cells.highest == 250


def test_large_holes_are_reported() -> None:
    cells = Cells(4096)
    cells.append(0, 1000)
    cells.append(1, 100)
    cells.cut(0, 0)
    assert cells.highest == 1100
    assert cells.is_scattered()
