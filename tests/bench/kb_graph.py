"""What the graph does for a very large knowledge base: time to make it, size, recall, query times.

    python -m tests.bench.kb_graph [--chunks 600000] [--exact-rows 500000] [--queries 200]

Made-up unit vectors of 384 numbers in the order of documents: topics, documents in them, passages
around each; their numbers fall off as those of embeddings do, and a query lies beside a passage.
The graph is made of the first 88 %, searched with the rest as its tail, then extended by it. `cpu`
figures are processor time: on a busy machine they say more. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from app.knowledge import graph_file
from app.knowledge.graph_building import GraphBuilding
from app.knowledge.graph_child import STEP_ROWS
from app.knowledge.states import SyncProgress
from app.knowledge.vectors import EXACT_ROWS, Vectors, exact

SIZE = 384
TOPICS = 400
DOCUMENT_CHUNKS = 30
FIRST_SHARE = 0.88
WRITTEN_ROWS = 20_000
SHOWN, ASKED = 24, 200
"""Rows that a question shows, and that a search asks for."""

Floats = Any


class Maker:
    """Vectors and queries; the same for the same seed."""

    def __init__(self, seed: int = 1) -> None:
        self._chance = np.random.default_rng(seed)
        self._fall = (np.arange(1, SIZE + 1) ** -0.5).astype(np.float32)
        self._turn = np.linalg.qr(self._chance.standard_normal((SIZE, SIZE)))[0].astype(np.float32)
        self._topics = self._spread(TOPICS)

    def rows(self, count: int) -> Iterator[Floats]:
        """`count` in blocks [n, SIZE]."""
        while count > 0:
            documents = -(-min(count, WRITTEN_ROWS) // DOCUMENT_CHUNKS)
            topics = self._topics[self._chance.integers(0, TOPICS, documents)]
            near = (topics + 0.8 * self._spread(documents)).repeat(DOCUMENT_CHUNKS, axis=0)
            made = unit(near + 0.8 * self._spread(len(near)))[: min(count, WRITTEN_ROWS)]
            yield made @ self._turn
            count -= len(made)

    def beside(self, vectors: Floats) -> Floats:
        return unit(vectors + 0.9 * self._spread(len(vectors)) @ self._turn)

    def _spread(self, count: int) -> Floats:
        return unit(self._chance.standard_normal((count, SIZE), dtype=np.float32) * self._fall)


def unit(vectors: Floats) -> Floats:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and those of the processor with children that ended."""
    began, cpu = time.perf_counter(), sum(os.times()[:4])
    action()
    return time.perf_counter() - began, sum(os.times()[:4]) - cpu


def build(vectors: Vectors, rows: Floats) -> dict[str, float]:
    """By its own process, which nothing holds up. Its memory, MB: of its own, without mapped files,
    which the system may take back.
    """
    most = 0.0

    def report(told: SyncProgress) -> None:
        nonlocal most
        if told.done % (64 * STEP_ROWS) == 0:
            (child,) = psutil.Process().children()
            most = max(most, resident(child.pid)["own_mb"])

    def update() -> None:
        GraphBuilding().update(vectors, rows, report, lambda is_wanted: is_wanted())

    took, cpu = timed(update)
    (graph,) = graph_file.graphs(vectors.path)
    size = graph.stat().st_size / 1e6
    return {"seconds": took, "cpu_s": cpu, "file_mb": size, "own_memory_mb": most}


def searches(vectors: Vectors, queries: Floats, used: Floats) -> dict[str, float]:
    """Recall against comparing all rows, and times of both; here and in a process of its own."""
    table = np.memmap(vectors.path, "<f4", "r", shape=(len(vectors), SIZE))
    graph_ms, exact_ms, cpu_ms, shown, asked = [], [], [], 0, 0
    vectors.search(queries[0], ASKED, used)
    for query in queries:
        began, cpu = time.perf_counter(), time.process_time()
        found, _ = vectors.search(query, ASKED, used)
        middle = time.perf_counter()
        cpu_ms.append(1000 * (time.process_time() - cpu))
        best, _ = exact(table, query, ASKED, used)
        graph_ms.append(1000 * (middle - began))
        exact_ms.append(1000 * (time.perf_counter() - middle))
        shown += len(np.intersect1d(found[:SHOWN], best[:SHOWN]))
        asked += len(np.intersect1d(found, best))
    return {
        f"recall_at_{SHOWN}": shown / SHOWN / len(queries),
        f"recall_at_{ASKED}": asked / ASKED / len(queries),
        "graph_p50_ms": float(np.percentile(graph_ms, 50)),
        "graph_p95_ms": float(np.percentile(graph_ms, 95)),
        "graph_cpu_p95_ms": float(np.percentile(cpu_ms, 95)),
        "exact_p50_ms": float(np.percentile(exact_ms, 50)),
        "exact_p95_ms": float(np.percentile(exact_ms, 95)),
    }


def memory(vectors: Vectors, queries: Path, exact_rows: int) -> dict[str, float]:
    """Of a process that only searches, MB: its own, and of mapped files, which the system may take
    back.
    """
    words = (sys.executable, "-m", "tests.bench.kb_graph", "--search", str(vectors.path))
    done = subprocess.run(
        [*words, str(queries), "--exact-rows", str(exact_rows)], check=True, stdout=subprocess.PIPE
    )
    told: dict[str, float] = json.loads(done.stdout)
    return told


def search_only(path: Path, queries: Path, exact_rows: int) -> None:
    before = resident()
    vectors = Vectors(path, SIZE, exact_rows=exact_rows)
    used = np.arange(len(vectors))
    first = timed(lambda: vectors.search(np.load(queries)[0], ASKED, used))[0]
    for query in np.load(queries):
        vectors.search(query, ASKED, used)
    after = resident()
    print(json.dumps({"first_search_s": first} | {key: after[key] - before[key] for key in after}))


def resident(pid: int | str = "self") -> dict[str, float]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    names = {"own_mb": "RssAnon", "mapped_mb": "RssFile"}
    return {name: int(fields[field].split()[0]) / 1024 for name, field in names.items()}


def measured(folder: Path, args: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    maker, start = Maker(), 0
    vectors = Vectors(folder / "vectors-1.f32", SIZE, exact_rows=args.exact_rows)
    for block in maker.rows(args.chunks):
        vectors.write(range(start, start + len(block)), block)
        start += len(block)
    chosen = np.random.default_rng(2).integers(0, args.chunks, args.queries)
    queries = maker.beside(vectors.read(chosen.tolist()))
    np.save(folder / "queries.npy", queries)
    rows, first = np.arange(args.chunks), int(FIRST_SHARE * args.chunks)
    yield "make", {"rows": first} | build(vectors, rows[:first])
    yield "search", searches(vectors, queries, rows[:first])
    yield "search with tail", {"tail": args.chunks - first} | searches(vectors, queries, rows)
    yield "extend", {"rows": args.chunks - first} | build(vectors, rows)
    yield "search all", searches(vectors, queries, rows)
    yield "memory", memory(vectors, folder / "queries.npy", args.exact_rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=600_000)
    parser.add_argument("--exact-rows", type=int, default=EXACT_ROWS)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--search", nargs=2, type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.search:
        search_only(*args.search, args.exact_rows)
        return
    results = {}
    with tempfile.TemporaryDirectory(prefix="localchat-kb-") as name:
        for what, figures in measured(Path(name), args):
            results[what] = {key: round(value, 4) for key, value in figures.items()}
            print(f"{what}: {results[what]}", flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
