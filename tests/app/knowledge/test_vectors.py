from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.errors import StorageError
from app.knowledge.vectors import Vectors, nearest


def unit(count: int, size: int, seed: int = 1) -> np.ndarray:
    made = np.random.default_rng(seed).standard_normal((count, size)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    vectors = Vectors(tmp_path / "v.f32", 7)
    assert len(vectors) == 0
    first, second = unit(3, 7), unit(2, 7, seed=2)
    vectors.write([0, 1, 5], first)
    vectors.write([1, 9], second)
    assert len(vectors) == 10
    np.testing.assert_array_equal(vectors.read([0, 5, 1, 9]), [*first[[0, 2]], *second])
    np.testing.assert_array_equal(Vectors(vectors.path, 7).read([0]), first[:1])
    assert vectors.path.stat().st_mode & 0o777 == 0o600


def test_a_search_gives_the_nearest_rows_in_order(tmp_path: Path) -> None:
    table = unit(501, 13)
    vectors = Vectors(tmp_path / "v.f32", 13)
    vectors.write(range(501), table)
    query = unit(1, 13, seed=3)[0]
    rows, cosines = vectors.search(query, 20)
    by_hand = sorted(range(501), key=lambda row: -float(np.dot(table[row], query)))[:20]
    assert list(rows) == by_hand
    np.testing.assert_allclose(cosines, table[by_hand] @ query, rtol=1e-5)


def test_free_rows_are_never_found(tmp_path: Path) -> None:
    vectors = Vectors(tmp_path / "v.f32", 5)
    table = unit(50, 5)
    vectors.write(range(50), table)
    used = np.array([3, 17, 49, 300])
    rows, _ = vectors.search(table[4], 10, used)
    assert set(rows) == {3, 17, 49}


def test_a_search_over_nothing_finds_nothing(tmp_path: Path) -> None:
    rows, cosines = Vectors(tmp_path / "none", 4).search(unit(1, 4)[0], 5)
    assert len(rows) == len(cosines) == 0


def test_equal_cosines_come_in_the_order_of_rows_and_broken_ones_last() -> None:
    values = np.array([0.5, np.nan, 0.5, 0.9, 0.5], np.float32)
    assert list(nearest(values, 3)) == [3, 0, 2]
    assert list(nearest(values, 9)) == [3, 0, 2, 4, 1]


def test_half_a_row_that_a_crash_left_is_no_row(tmp_path: Path) -> None:
    vectors = Vectors(tmp_path / "v.f32", 8)
    vectors.write([0], unit(1, 8))
    with vectors.path.open("ab") as file:
        file.write(b"half")
    assert len(vectors) == 1
    assert list(vectors.search(unit(1, 8)[0], 5)[0]) == [0]


def test_a_file_that_grows_is_seen_by_one_who_reads_it(tmp_path: Path) -> None:
    writer, reader = Vectors(tmp_path / "v.f32", 6), Vectors(tmp_path / "v.f32", 6)
    table = unit(4, 6)
    writer.write([0, 1], table[:2])
    assert list(reader.search(table[1], 1)[0]) == [1]
    writer.write([2, 3], table[2:])
    assert list(reader.search(table[3], 1)[0]) == [3]


def test_a_wrong_shape_is_refused_and_a_bad_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="vectors for"):
        Vectors(tmp_path / "v.f32", 4).write([0], unit(1, 5))
    with pytest.raises(StorageError, match="nowhere"):
        Vectors(tmp_path / "nowhere" / "v.f32", 4).write([0], unit(1, 4))
