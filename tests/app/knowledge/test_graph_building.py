"""When a search graph is made, extended, made again and removed, by its own process; a graph is
wanted here from a few rows on.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from app.knowledge import graph_building, graph_file
from app.knowledge.base import KnowledgeBase
from app.knowledge.embedding_child import NICENESS
from app.knowledge.graph_building import COMMAND, GraphBuilding, plan
from app.knowledge.graph_child import GO, STEP_ROWS, Job, build
from app.knowledge.objects import status_object
from app.knowledge.root_reading import Stopped
from app.knowledge.states import SyncProgress
from app.knowledge.vectors import Vectors
from tests.app.knowledge.hash_embedder import HashEmbedder
from tests.app.knowledge.test_vector_graph import (
    OWNER,
    ROWS,
    SIZE,
    check,
    clustered,
    make_graph,
)


@pytest.fixture
def table() -> np.ndarray:
    return clustered()


@pytest.fixture
def vectors(tmp_path: Path, table: np.ndarray) -> Vectors:
    (tmp_path / "base").mkdir()
    made = Vectors(tmp_path / "base" / "vectors-1.f32", SIZE, OWNER, exact_rows=10)
    made.write(range(ROWS), table)
    return made


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(
        command: Sequence[str], job: Job, added: Any, is_wanted: Callable[[int], bool]
    ) -> bool:
        return build(job, added, is_wanted)

    monkeypatch.setattr(graph_building, "make", make)


def always(is_wanted: Callable[[], bool]) -> bool:
    return is_wanted()


def update(vectors: Vectors, rows: Sequence[int]) -> list[SyncProgress]:
    """What it reported."""
    told: list[SyncProgress] = []
    GraphBuilding().update(vectors, np.array(rows, np.int64), told.append, always)
    return told


def test_the_process_makes_the_graph_step_by_step_behind_everything_else(
    vectors: Vectors, table: np.ndarray
) -> None:
    told: list[SyncProgress] = []
    started: list[psutil.Process] = []

    def wait(is_wanted: Callable[[], bool]) -> bool:
        if not started:
            children = psutil.Process().children()
            started.extend(each for each in children if COMMAND[-1] in each.cmdline())
            assert started[0].nice() == min(psutil.Process().nice() + NICENESS, 19)
        return is_wanted()

    GraphBuilding().update(vectors, np.arange(ROWS), told.append, wait)
    assert not started[0].is_running()
    assert [each.done for each in told[::2]] == list(range(0, ROWS, STEP_ROWS))
    assert {(each.phase, each.total) for each in told} == {("graph", ROWS)}
    assert vectors.search_way(ROWS).way == "graph + exact tail"
    check(vectors, table)


@pytest.mark.usefixtures("in_this_process")
def test_a_graph_is_extended_when_many_rows_are_new_and_made_again_when_many_are_free(
    vectors: Vectors,
) -> None:
    assert update(vectors, range(10)) == []
    assert graph_file.graphs(vectors.path) == []
    assert update(vectors, range(300))[0].total == 300
    (first,) = graph_file.graphs(vectors.path)
    assert update(vectors, range(5, 330)) == []
    assert update(vectors, range(5, 340))[0].total == 40
    (second,) = graph_file.graphs(vectors.path)
    assert second != first
    assert int(vectors.graph().held.sum()) == 340
    assert update(vectors, range(100, 380))[0].total == 280
    assert list(np.flatnonzero(vectors.graph().held)) == list(range(100, 380))
    assert update(vectors, range(10)) == []
    assert graph_file.graphs(vectors.path) == []


@pytest.mark.usefixtures("in_this_process")
def test_a_damaged_graph_is_made_again(vectors: Vectors, table: np.ndarray) -> None:
    make_graph(vectors, range(ROWS)).write_bytes(b"torn")
    assert update(vectors, range(ROWS))[0].total == ROWS
    assert len(graph_file.graphs(vectors.path)) == 1
    check(vectors, table)


@pytest.mark.usefixtures("in_this_process")
def test_a_stop_keeps_what_was_there_or_what_is_far_on_its_way(
    vectors: Vectors, table: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_graph(vectors, range(30))

    def stopped_at(done: int) -> None:
        with pytest.raises(Stopped):
            GraphBuilding().update(
                vectors, np.arange(ROWS), lambda progress: progress.done < done, always
            )

    stopped_at(200)
    assert {*vectors.path.parent.iterdir()} == {vectors.path, old}
    check(vectors, table)
    monkeypatch.setattr(graph_building, "Job", lambda *words: Job(*words, worth_keeping=100))
    stopped_at(200)
    assert int(vectors.graph().held.sum()) == 30 + 4 * STEP_ROWS
    check(vectors, table)
    assert update(vectors, range(ROWS))[0].total == ROWS - 30 - 4 * STEP_ROWS
    assert vectors.graph().held.all()


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from app.knowledge.graph_building import GraphBuilding
from app.knowledge.vectors import Vectors
import app.knowledge.graph_building as building
from app.knowledge.graph_child import build

def die(*words):
    print(*[path.name for path in Path(sys.argv[1]).parent.glob("*.part")])
    sys.stdout.flush()
    os.kill(os.getpid(), 9)

building.put_in_place = die
building.make = lambda command, job, added, go_on: build(job, added, go_on)
vectors = Vectors(Path(sys.argv[1]), 24, sys.argv[2], exact_rows=10)
GraphBuilding().update(vectors, np.arange(400), lambda told: True, lambda is_wanted: True)
"""


def test_a_kill_before_the_file_is_in_place_leaves_the_old_graph(
    vectors: Vectors, table: np.ndarray
) -> None:
    old = make_graph(vectors, range(100))
    words = (sys.executable, "-c", KILLED, str(vectors.path), OWNER)
    done = subprocess.run(words, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True)
    assert done.returncode == -9
    (part,) = done.stdout.split()
    assert part.endswith(".usearch.part")
    assert graph_file.graphs(vectors.path) == [old]
    check(vectors, table)
    assert vectors.search_way(ROWS).way == "graph + exact tail"
    assert update(vectors, range(105)) == []
    assert not old.with_name(part).exists()


def test_the_process_ends_with_who_started_it(vectors: Vectors) -> None:
    part = vectors.path.with_name("made.part")
    job = Job(str(vectors.path), SIZE, OWNER, str(part), None)
    head = json.dumps({**asdict(job), "rows": ROWS}).encode() + b"\n"
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(head + b"\xff" * (ROWS // 8))
        process.stdin.flush()
        assert process.stdout.readline() == b'{"done": 0}\n'
        process.stdin.close()
        assert process.stdout.read() == b""
    assert not part.exists()


def test_the_process_ends_without_a_crash(vectors: Vectors) -> None:
    job = Job(str(vectors.path), SIZE, OWNER, str(vectors.path.with_name("made.part")), None)
    head = json.dumps({**asdict(job), "rows": 8}).encode() + b"\n"
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(head + b"\xff" + GO)
        process.stdin.flush()
        assert list(process.stdout) == [b'{"done": 0}\n', b'{"kept": true}\n']
        assert process.wait() == 0


@pytest.mark.parametrize(
    "code", ["", 'print(\'{"error": "no room"}\')', "print('half', end='')", "print('half')"]
)
def test_a_process_that_fails_leaves_nothing(
    vectors: Vectors, table: np.ndarray, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    building = GraphBuilding((sys.executable, "-S", "-c", code))
    for _ in range(2):
        building.update(vectors, np.arange(ROWS), lambda told: None, always)
    assert len(caplog.records) == 1
    assert list(vectors.path.parent.iterdir()) == [vectors.path]
    check(vectors, table, count=2)


class FailingMaking:
    """In place of `make`: fails until it is allowed, each time after so many seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.takes, self.tries, self.fails = 0.0, 1.0, 0, True
        self.building = GraphBuilding(clock=lambda: self.now)
        monkeypatch.setattr(graph_building, "make", self._make)

    def _make(self, command: object, job: Job, added: Any, go_on: Callable[[int], bool]) -> bool:
        self.tries += 1
        self.now += self.takes
        if self.fails:
            raise graph_building.GraphFailed("no room")
        return build(job, added, go_on)

    def seconds_to_next(self, vectors: Vectors, rows: int = ROWS) -> int:
        """Asked each second."""
        tries, began = self.tries, self.now
        while self.tries == tries:
            self.building.update(vectors, np.arange(rows), lambda told: None, always)
            self.now += 1
        return round(self.now - 1 - self.takes - began)


def test_a_making_that_fails_is_tried_again_after_a_rest_that_grows(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = FailingMaking(monkeypatch)
    rests = [making.seconds_to_next(vectors) for _ in range(9)]
    assert rests[0] == 0
    assert all(one < next_one for one, next_one in itertools.pairwise(rests[:7]))
    assert max(rests) <= graph_building.LONGEST_REST_S
    making.fails = False
    making.seconds_to_next(vectors, 300)
    assert vectors.search_way(300).way == "graph + exact tail"
    making.fails = True
    assert making.seconds_to_next(vectors) == 0
    assert making.seconds_to_next(vectors) < 2 * graph_building.SHORTEST_REST_S


def test_a_making_that_took_long_in_vain_is_not_tried_again_sooner_than_that(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = FailingMaking(monkeypatch)
    making.takes = 7000
    making.seconds_to_next(vectors)
    assert making.seconds_to_next(vectors) >= 6999


@pytest.mark.usefixtures("in_this_process")
def test_a_graph_that_cannot_be_put_in_place_ends_no_sync(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch, table: np.ndarray
) -> None:
    def full(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", full)
    assert update(vectors, range(ROWS))[0].total == ROWS
    assert list(vectors.path.parent.iterdir()) == [vectors.path]
    check(vectors, table, count=2)


# ---- a base


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_this_process: None):
    monkeypatch.setattr(KnowledgeBase, "_calibrate", lambda *words: None)
    texts = {f"note {n}": f"number {n} is a note" for n in range(60)}
    with KnowledgeBase.temporary(tmp_path / "many", texts, HashEmbedder()) as base:
        base.index.exact_rows = 20
        yield base


def nearest(base: KnowledgeBase, text: str) -> str:
    vectors, rows = base.vectors(), base.index.row_table()
    assert vectors is not None
    found, cosines = vectors.search(HashEmbedder().embed_query(text), 1, rows.used)
    assert cosines[0] == pytest.approx(1, abs=1e-5)
    (chunk_id, *_) = rows.chunks_of(int(found[0]))
    return base.index.chunk([chunk_id])[0].name


def test_a_sync_makes_the_graph_and_the_status_tells(base: KnowledgeBase) -> None:
    assert status_object(base.status())["vector_search"] is None
    phases: list[str] = []
    assert base.sync(lambda progress: phases.append(progress.phase)).is_complete
    assert list(dict.fromkeys(phases)) == ["embedding", "graph"]
    told = status_object(base.status())
    assert (told["vector_search"], told["vector_search_notice"]) == ("graph + exact tail", "")
    for chunk in base.index.chunk(list(base.index.vector_slots()))[::10]:
        assert nearest(base, chunk.embed_text) == chunk.name
    phases.clear()
    base.sync(lambda progress: phases.append(progress.phase))
    assert "graph" not in phases


def test_rows_of_a_graph_are_not_written_anew_while_it_is_there(base: KnowledgeBase) -> None:
    base.sync()
    vectors = base.vectors()
    assert vectors is not None
    held = {int(row) for row in np.flatnonzero(vectors.graph().held)}
    gone = base.index.content_ids()[:5]
    with base.index._writes.write() as connection:
        keys = f"""SELECT key FROM chunks WHERE content_id IN ({",".join(map(str, gone))})"""
        connection.execute(f"DELETE FROM vectors WHERE key IN ({keys})")
    base.index.bind_embedder("hash-1", 16)
    assert held.isdisjoint(base.index.free_rows(100))
    base.sync()
    assert base.status().vector_search is not None
    assert base.status().vector_search.way == "graph + exact tail"
    for chunk in base.index.chunk(list(base.index.vector_slots()))[::7]:
        assert nearest(base, chunk.embed_text) == chunk.name


def test_another_embedder_takes_the_old_graph_with_it(base: KnowledgeBase) -> None:
    base.sync()
    folder = base.index.folder
    (old,) = folder.glob("*.usearch")
    base.embedder = HashEmbedder("hash-2", 24)
    base.sync(replace_embedder=True)
    (new,) = folder.glob("*.usearch")
    assert new.name.split(".")[0] != old.name.split(".")[0]
    assert base.status().vector_search is not None
    assert base.status().vector_search.way == "graph + exact tail"


def test_nothing_is_planned_for_a_graph_that_has_enough(vectors: Vectors) -> None:
    path = make_graph(vectors, range(ROWS))
    kept, added = plan(vectors, np.arange(20, ROWS))
    assert kept == path
    assert not added.any()
