"""How long a knowledge base lets a person wait: first search, rescan, change, and word search.

    python -m tests.bench.kb_index [--files 1000] [--unchanged 10000] [--chunks 50000]

Real files, real reading process, no embedder. Words follow Zipf's law over 30,000 made-up ones.
`cpu` figures are processor time, children included: on a busy machine they say more. The last line
is JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles

from app.knowledge.base import KnowledgeBase
from app.knowledge.bases import KnowledgeBases
from app.knowledge.watch import Watch
from app.knowledge.words import STOP_WORDS
from app.paths import Paths

VOCABULARY = 30_000
FILE_CHARACTERS = 4000
QUERIES = 300
CHANGES = 5
PATIENCE_SECONDS = 60.0


class Writer:
    """Text of made-up words; the most frequent ones are those that say nothing."""

    def __init__(self, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
        made = ("".join(self._chance.choices(syllables, k=1 + n % 3)) for n in itertools.count())
        self.words = list(dict.fromkeys([*sorted(STOP_WORDS), *itertools.islice(made, 60_000)]))
        self.words = self.words[:VOCABULARY]
        weights = [1 / rank for rank in range(1, len(self.words) + 1)]
        self._weights = list(itertools.accumulate(weights))

    def take(self, count: int) -> list[str]:
        return self._chance.choices(self.words, cum_weights=self._weights, k=count)

    def note(self, characters: int) -> str:
        """A Markdown note with headings."""
        parts = [f"# {' '.join(self.take(4))}\n"]
        while sum(map(len, parts)) < characters:
            sentences = (" ".join(self.take(12)).capitalize() + "." for _ in range(6))
            parts.append(f"\n## {' '.join(self.take(3))}\n\n{' '.join(sentences)}\n")
        return "".join(parts)

    def question(self) -> str:
        """As people ask: some words that say nothing, some that do, of all frequencies."""
        return f"What is the {' '.join(self.take(9))}?"


def write_notes(folder: Path, writer: Writer, count: int, characters: int) -> None:
    for number in range(count):
        place = folder / f"{number // 100:03}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"note {number}.md").write_text(writer.note(characters))


def cpu_seconds() -> float:
    """Of this process and its children that have ended."""
    return sum(os.times()[:4])


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def until(condition: Callable[[], bool]) -> float:
    """Seconds until it holds."""
    began = time.perf_counter()
    while not condition():
        if time.perf_counter() - began > PATIENCE_SECONDS:
            raise TimeoutError
        time.sleep(0.01)
    return time.perf_counter() - began


def first_search(bases: KnowledgeBases, root: Path, name: str) -> dict[str, float]:
    """From pointing at a folder to words that can be searched; then what is measured of the corpus
    for refusals.
    """
    began, cpu = time.perf_counter(), cpu_seconds()
    with bases.create(name, [root]) as base:
        opened = time.perf_counter() - began
        report = base.sync(lexical_only=True)
        whole = time.perf_counter() - began
        chunks = base.index.chunk_count
    assert report.searchable_after is not None
    searchable = opened + report.searchable_after
    return {
        "searchable_s": searchable,
        "chunks": chunks,
        "chunks_per_s": chunks / searchable,
        "calibration_s": whole - searchable,
        "cpu_s": cpu_seconds() - cpu,
    }


def rescans(base: KnowledgeBase) -> dict[str, float]:
    """Of unchanged files, when their times are beyond doubt."""
    time.sleep(2.1)
    first = seconds(base.rescan)
    again = [seconds(base.rescan) for _ in range(3)]
    return {"first_s": first, "median_s": median(again)}


def changes(base: KnowledgeBase, root: Path) -> dict[str, float]:
    """From the change on the disk to an index that knows it, while a watch runs."""
    watch = Watch(base)
    watch.start()
    until(lambda: base.is_watched)
    path = next(root.rglob("*.md"))
    edits, deletions = [], []
    try:
        for number in range(CHANGES):
            word = f"zzedit{number}"
            path.write_text(f"# Edited\n\n{word}\n")
            edits.append(until(lambda word=word: bool(base.index.search_words(word, 1))))
            path.unlink()
            deletions.append(until(lambda word=word: not base.index.chunk(ids(base, word))))
    finally:
        watch.stop()
    return {"edit_s": max(edits), "delete_s": max(deletions)}


def ids(base: KnowledgeBase, word: str) -> list[int]:
    return [hit.chunk_id for hit in base.index.search_words(word, 1)]


def searches(base: KnowledgeBase, writer: Writer) -> dict[str, float]:
    """What a question asks of the words: hits, weights and the best chunks."""

    def ask(question: str) -> None:
        hits = base.index.search_words(question, 200)
        base.index.idf_sum(question)
        base.index.chunk([hit.chunk_id for hit in hits[:40]])

    ask(writer.question())
    took, cpu = [], []
    for question in [writer.question() for _ in range(QUERIES)]:
        before = time.process_time()
        took.append(1000 * seconds(lambda question=question: ask(question)))
        cpu.append(1000 * (time.process_time() - before))
    return {
        "p50_ms": median(took),
        "p95_ms": quantiles(took, n=20)[-1],
        "cpu_p95_ms": quantiles(cpu, n=20)[-1],
    }


def measured(folder: Path, args: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    writer = Writer()
    bases = KnowledgeBases(Paths.under(folder / "home"))
    notes, many, large = folder / "notes", folder / "many", folder / "large"
    write_notes(notes, writer, args.files, 3000)
    yield "first search", first_search(bases, notes, "notes")
    write_notes(many, writer, args.unchanged, 300)
    yield "many files", first_search(bases, many, "many")
    with bases.open("many") as base:
        yield "rescan", rescans(base)
        yield "change", changes(base, many)
    write_notes(large, writer, args.chunks * 700 // FILE_CHARACTERS // 10, FILE_CHARACTERS * 10)
    yield "many chunks", first_search(bases, large, "large")
    with bases.open("large") as base:
        yield "search", searches(base, writer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--unchanged", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=50_000)
    args = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(prefix="localchat-kb-") as name:
        for what, figures in measured(Path(name), args):
            results[what] = {key: round(value, 3) for key, value in figures.items()}
            print(f"{what}: {results[what]}", flush=True)
    assert threading.active_count() == 1
    print(json.dumps(results))


if __name__ == "__main__":
    main()
