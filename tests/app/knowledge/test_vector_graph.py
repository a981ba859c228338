"""Searching very many vectors by a graph; here the graph is used from a few rows on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from app.knowledge import graph_file, vector_graph
from app.knowledge.graph_building import put_in_place
from app.knowledge.graph_child import Job, build
from app.knowledge.vector_graph import MISSING, NONE_YET, UNUSABLE, NoGraph
from app.knowledge.vectors import Vectors, flags

ROWS, SIZE, LIMIT = 400, 24, 8
OWNER = "base 1 some model"


def clustered(count: int = ROWS, size: int = SIZE, seed: int = 1) -> np.ndarray:
    """Unit vectors in clusters of 40, as chunks of a document lie."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((-(-count // 40), size)).repeat(40, axis=0)[:count]
    made = centres + 0.5 * chance.standard_normal((count, size))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def make_graph(vectors: Vectors, rows: Sequence[int], base: Path | None = None) -> Path:
    """In this process."""
    added = np.zeros(len(vectors), np.bool_)
    added[list(rows)] = True
    target = graph_file.next_path(vectors.path)
    part = target.with_name(target.name + graph_file.UNFINISHED)
    kept = None if base is None else str(base)
    job = Job(str(vectors.path), vectors.size, vectors.owner, str(part), kept)
    assert build(job, added, lambda done: True)
    put_in_place(part, target, vectors.path)
    return target


@pytest.fixture
def table() -> np.ndarray:
    return clustered()


@pytest.fixture
def vectors(tmp_path: Path, table: np.ndarray) -> Vectors:
    made = Vectors(tmp_path / "vectors-1.f32", SIZE, OWNER, exact_rows=10)
    made.write(range(ROWS), table)
    return made


def by_hand(table: np.ndarray, query: np.ndarray, rows: Sequence[int]) -> list[int]:
    return sorted(rows, key=lambda row: (-float(np.dot(table[row], query)), row))[:LIMIT]


def check(
    vectors: Vectors, table: np.ndarray, used: Sequence[int] | None = None, count: int = 20
) -> None:
    """Searches give what comparing all by hand gives, with its cosines."""
    rows = range(len(table)) if used is None else used
    for query in clustered(count, len(table[0]), seed=5):
        found, cosines = vectors.search(
            query, LIMIT, None if used is None else np.array(used, np.int64)
        )
        assert list(found) == by_hand(table, query, rows)
        np.testing.assert_allclose(cosines, table[found] @ query, rtol=0, atol=1e-6)


def test_a_graph_finds_what_comparing_all_finds(vectors: Vectors, table: np.ndarray) -> None:
    make_graph(vectors, range(ROWS))
    assert vectors.search_way(ROWS).way == "graph + exact tail"
    check(vectors, table)


def test_most_near_rows_of_a_large_set_are_found_and_each_cosine_is_exact(tmp_path: Path) -> None:
    table = clustered(2000, 32)
    vectors = Vectors(tmp_path / "v.f32", 32, exact_rows=10)
    vectors.write(range(2000), table)
    make_graph(vectors, range(2000))
    seen = 0
    for query in clustered(30, 32, seed=6):
        rows, cosines = vectors.search(query, LIMIT)
        np.testing.assert_allclose(cosines, table[rows] @ query, rtol=0, atol=1e-6)
        assert list(cosines) == sorted(cosines, reverse=True)
        seen += len({*rows} & {*by_hand(table, query, range(2000))})
    assert seen >= 0.95 * 30 * LIMIT


def test_up_to_the_limit_no_graph_is_asked(
    vectors: Vectors, table: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_graph(vectors, range(ROWS))
    monkeypatch.setattr(Vectors, "graph", lambda self: pytest.fail("asked"))
    check(Vectors(vectors.path, SIZE, OWNER, exact_rows=ROWS), table)
    check(vectors, table, used=range(10))
    assert vectors.search_way(10).way == "exact"


def test_free_rows_are_never_found_even_where_all_near_ones_are_free(
    vectors: Vectors, table: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_graph(vectors, range(ROWS))
    check(vectors, table, used=[row for row in range(ROWS) if row % 3])
    monkeypatch.setattr(vector_graph, "LEAST_WANTED", 1)
    query = table[10]
    used = [row for row in range(ROWS) if float(table[row] @ query) < 0.0]
    assert ROWS - len(used) > 2 * vector_graph.ASKED[0] * LIMIT
    found, _ = vectors.search(query, LIMIT, np.array(used))
    assert list(found) == by_hand(table, query, used)


def test_where_too_many_near_rows_are_free_all_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_graph, "LEAST_WANTED", 1)
    table = clustered(900, 8)
    vectors = Vectors(tmp_path / "v.f32", 8, exact_rows=10)
    vectors.write(range(900), table)
    make_graph(vectors, range(900))
    order = np.argsort(-(table @ table[0]))
    used = order[500:]
    graph = vectors.graph()
    assert graph.near(table[0], 4, graph.divide(flags(used, 900))) is None
    found, _ = vectors.search(table[0], 4, used)
    assert list(found) == list(order[500:504])


def test_rows_that_are_newer_than_the_graph_are_found(vectors: Vectors, table: np.ndarray) -> None:
    make_graph(vectors, [row for row in range(300) if row % 7])
    check(vectors, table)
    more = clustered(37, seed=9)
    vectors.write(range(ROWS, ROWS + 37), more)
    assert vectors.search_way(ROWS + 37).way == "graph + exact tail"
    check(vectors, np.concatenate([table, more]))


def test_a_row_that_is_written_anew_takes_its_graph_with_it(
    vectors: Vectors, table: np.ndarray
) -> None:
    make_graph(vectors, range(0, ROWS, 2))
    table[7] *= -1
    vectors.write([7], table[7:8])
    assert vectors.search_way(ROWS).way == "graph + exact tail"
    check(vectors, table)
    reader = Vectors(vectors.path, SIZE, OWNER, exact_rows=10)
    assert reader.search_way(ROWS).way == "graph + exact tail"
    table[8] *= -1
    vectors.write([8], table[8:9])
    for each in (vectors, reader):
        assert each.search_way(ROWS).notice == NONE_YET
        check(each, table)


def test_rows_of_no_length_or_no_number_are_left_to_the_exact_search(
    vectors: Vectors, table: np.ndarray
) -> None:
    damaged = np.stack([np.zeros(SIZE), np.full(SIZE, np.nan), np.full(SIZE, np.inf)])
    vectors.write([3, 4, 5], damaged.astype(np.float32))
    make_graph(vectors, range(ROWS))
    held = vectors.graph().held
    assert [row for row in range(ROWS) if not held[row]] == [3, 4, 5]
    found, _ = vectors.search(table[100], LIMIT)
    assert list(found) == by_hand(table, table[100], [*range(3), *range(6, ROWS)])


def test_a_graph_that_gets_rows_is_the_graph_of_all(vectors: Vectors, table: np.ndarray) -> None:
    first = make_graph(vectors, range(0, ROWS, 2))
    second = make_graph(vectors, range(1, ROWS, 2), base=first)
    assert graph_file.graphs(vectors.path) == [second]
    assert vectors.graph().held.all()
    check(vectors, table)


# ---- files that are not what they seem


def damages(whole: bytes) -> dict[str, bytes]:
    middle = len(whole) // 3
    return {
        "empty": b"",
        "end only": whole[-16:],
        "cut at the end": whole[:-1],
        "cut in the middle": whole[:middle],
        "cut at the start": whole[1:],
        "one bit of the graph": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "one bit of the head": whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:],
        "length of the head": whole[:-16] + b"\xff" * 8 + whole[-8:],
        "no graph": whole[-2000:],
        "something else": b"{}" * 4000,
    }


@pytest.mark.parametrize("name", damages(bytes(3000)))
def test_a_damaged_file_is_no_graph(vectors: Vectors, table: np.ndarray, name: str) -> None:
    path = make_graph(vectors, range(ROWS))
    path.write_bytes(damages(path.read_bytes())[name])
    told = vectors.search_way(ROWS)
    assert (told.way, told.notice) == ("exact", UNUSABLE)
    check(vectors, table, count=3)


def test_a_graph_of_another_base_or_model_or_size_is_not_believed(
    vectors: Vectors, table: np.ndarray, tmp_path: Path
) -> None:
    other = Vectors(tmp_path / "other.f32", SIZE, "base 2 some model")
    other.write(range(ROWS), clustered(seed=8))
    made = make_graph(other, range(ROWS))
    mine = graph_file.next_path(vectors.path)
    made.rename(mine)
    assert vectors.search_way(ROWS).notice == UNUSABLE
    check(vectors, table, count=3)
    narrow = Vectors(tmp_path / "narrow.f32", SIZE // 2, OWNER)
    narrow.write(range(ROWS), clustered(size=SIZE // 2))
    make_graph(narrow, range(ROWS)).rename(mine)
    fresh = Vectors(vectors.path, SIZE, OWNER, exact_rows=10)
    assert fresh.search_way(ROWS).notice == UNUSABLE


def test_an_older_graph_does_not_stand_in_for_a_damaged_one(vectors: Vectors) -> None:
    """Rows that it holds may have been written anew since."""
    old = make_graph(vectors, range(100))
    graph_file.next_path(vectors.path).write_bytes(b"torn")
    assert old.exists()
    with pytest.raises(NoGraph):
        vectors.graph()
    vectors.write([ROWS], clustered(1))
    assert graph_file.graphs(vectors.path) == []


def test_what_was_never_finished_is_no_graph(vectors: Vectors, table: np.ndarray) -> None:
    path = make_graph(vectors, range(ROWS))
    part = path.rename(path.with_name(path.name + graph_file.UNFINISHED))
    assert vectors.search_way(ROWS).notice == NONE_YET
    check(vectors, table, count=3)
    graph_file.remove(vectors.path)
    assert not part.exists()


def test_a_graph_file_belongs_to_its_owner_only(vectors: Vectors) -> None:
    assert make_graph(vectors, range(ROWS)).stat().st_mode & 0o777 == 0o600


# ---- without the library


def test_without_the_library_all_are_compared_and_it_is_said(
    vectors: Vectors, table: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_graph, "is_installed", lambda: False)
    assert vectors.search_way(ROWS).notice == MISSING
    check(vectors, table, count=3)
    monkeypatch.undo()
    make_graph(vectors, range(ROWS))
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    assert vectors.search_way(ROWS).notice == MISSING
    check(vectors, table, count=3)


SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from app.knowledge.vectors import Vectors, flags

def refuse(event, arguments):
    if event.startswith("socket."):
        raise OSError(event)

sys.addaudithook(refuse)
vectors = Vectors(Path(sys.argv[1]), 24, sys.argv[2], exact_rows=10)
query = vectors.read([5])[0]
vectors.search(query, 3, np.arange(10))
assert "usearch" not in sys.modules
assert list(vectors.search(query, 3)[0])[0] == 5
assert "usearch" in sys.modules
from app.knowledge.graph_child import Job, build
job = Job(sys.argv[1], 24, sys.argv[2], sys.argv[1] + ".made", None)
assert build(job, np.ones(50, bool), lambda done: True)
"""


def test_the_library_is_loaded_only_for_a_graph_and_opens_no_socket(vectors: Vectors) -> None:
    make_graph(vectors, range(ROWS))
    words = (sys.executable, "-W", "error", "-c", SCRIPT, str(vectors.path), OWNER)
    subprocess.run(words, check=True, cwd=Path(__file__).parents[3])
