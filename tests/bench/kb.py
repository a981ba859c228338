"""What searches of knowledge bases find, refuse and cost.

    python -m tests.bench.kb [--data DIR] [--lexical] [--embedder FILE.gguf]
                             [--only recall|evidence|refusal|speed]

Prints recall and nDCG by document, the share of the evidence inside 4,000 and 8,000 characters, how
many off-topic and answerable questions are refused, and a query's time at 50,000 chunks. About ten
minutes on two cores, most of them for embedding.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from app.knowledge.base import KnowledgeBase
from app.knowledge.embedder import Embedder, installed_embedder
from tests.bench.kb_data import (
    BUDGETS,
    QuestionSet,
    Remembering,
    base_of,
    built,
    data_folder,
    evidence_share,
    lines,
    mixed,
    part,
    place_of,
    question_sets,
    ranking,
)

CHUNKS = 50_000
CHUNKS_A_NOTE = 50
SPEED_QUERIES = 100
COMMON_WORDS = 100
NAMES = ("recall", "evidence", "refusal", "speed")


def main() -> int:
    args = arguments()
    folder = args.data or data_folder()
    if folder is None:
        print("There is no data: name its folder with --data.", file=sys.stderr)
        return 2
    embedder = chosen_embedder(args)
    try:
        if "recall" in args.only:
            recall(folder, embedder)
        if "evidence" in args.only:
            evidence(folder, embedder)
        if "refusal" in args.only:
            refusal(folder, embedder)
        if "speed" in args.only:
            speed(embedder)
    finally:
        if embedder is not None:
            embedder.close()
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kb", description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--lexical", action="store_true", help="without an embedder")
    parser.add_argument("--embedder", type=Path, help="a GGUF embedding model")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    return parser.parse_args()


def chosen_embedder(args: argparse.Namespace) -> Remembering | None:
    if args.lexical:
        return None
    if args.embedder is not None:
        from app.knowledge.gguf_embedder import GGUFEmbedder

        log = Path(tempfile.gettempdir()) / "localchat-bench-embedding.log"
        return Remembering(GGUFEmbedder(args.embedder, log))
    installed = installed_embedder()
    return Remembering(installed) if installed is not None else None


@contextmanager
def base(questions: QuestionSet, embedder: Embedder | None) -> Iterator[KnowledgeBase]:
    with (
        tempfile.TemporaryDirectory() as folder,
        base_of(Path(folder) / "base", questions, embedder) as opened,
    ):
        yield opened


def recall(folder: Path, embedder: Embedder | None) -> None:
    print("\nrecall@1 / recall@5 / nDCG@10, falsely refused, ms a query (median, 95 %)")
    sets = question_sets(folder)
    for questions in sets:
        with base(questions, embedder) as opened:
            print_recall(opened, questions)
    with base(mixed(sets), embedder) as opened:
        for each in sets:
            own = mixed([each])
            print_recall(opened, QuestionSet(f"mixed: {each.name}", (), own.questions))


def print_recall(opened: KnowledgeBase, questions: QuestionSet) -> None:
    places, times, refused = [], [], 0
    for question in questions.questions:
        began = time.perf_counter()
        found = opened.query(question.text)
        times.append(1000 * (time.perf_counter() - began))
        places.append(place_of(found, question.document))
        refused += found.is_refused
    score = ranking(places)
    print(
        f"{questions.name:16} {score.recall_1:.4f} / {score.recall_5:.4f} / {score.ndcg_10:.4f}"
        f"   {refused / len(places):.3f}   {np.median(times):.1f}, {np.quantile(times, 0.95):.1f}",
        flush=True,
    )


def evidence(folder: Path, embedder: Embedder | None) -> None:
    print("\nshare of the evidence inside the passages, falsely refused")
    corpora = (folder / "chunkeval/corpora").glob("*.md")
    texts = {path.name: path.read_bytes().decode("utf-8") for path in sorted(corpora)}
    questions = lines(folder / "chunkeval/queries.jsonl")
    with (
        tempfile.TemporaryDirectory() as place,
        built(Path(place) / "base", texts, embedder) as opened,
    ):
        for budget in BUDGETS:
            shares, refused = [], 0
            for question in questions:
                found = opened.query(question["q"], budget)
                refused += found.is_refused
                name = f"{question['corpus']}.md"
                shares.append(evidence_share(found.passages, name, question["refs"]))
            rate = refused / len(shares)
            print(f"{budget:,} characters  {np.mean(shares):.4f}   {rate:.3f}", flush=True)


def refusal(folder: Path, embedder: Embedder | None) -> None:
    print("\nrefused: off-topic / answerable (bases of a share of the articles)")
    for questions in question_sets(folder)[:2]:
        articles = sorted({text.article for text in questions.texts})
        for share in (2, 4):
            off, on = [], []
            for rest in range(share):
                inside = {each for each in articles if each % share == rest}
                with base(part(questions, inside), embedder) as opened:
                    for question in questions.questions:
                        is_refused = opened.query(question.text).is_refused
                        (on if question.article in inside else off).append(is_refused)
            print(
                f"{questions.name:10} 1/{share}   {np.mean(off):.4f} / {np.mean(on):.4f}",
                flush=True,
            )


def speed(embedder: Embedder | None) -> None:
    """On texts of chance words, with chance vectors: what they say costs nothing."""
    print("\nms a query (median, 95 %)")
    chance = np.random.default_rng(1)
    words = Words(chance)
    texts = {}
    for number in range(CHUNKS // CHUNKS_A_NOTE):
        paragraphs = [words.sentence(120) for _ in range(CHUNKS_A_NOTE)]
        texts[f"note-{number}.md"] = "\n\n".join(paragraphs)
    chosen = ChanceEmbedder(embedder) if embedder is not None else None
    with (
        tempfile.TemporaryDirectory() as place,
        built(Path(place) / "base", texts, chosen) as opened,
    ):
        opened.query(words.question())
        times = []
        for _ in range(SPEED_QUERIES):
            question = words.question()
            began = time.perf_counter()
            opened.query(question)
            times.append(1000 * (time.perf_counter() - began))
        chunks = opened.index.chunk_count
        print(f"{chunks:,} chunks   {np.median(times):.1f}, {np.quantile(times, 0.95):.1f}")


class Words:
    """Made-up words whose frequency falls with their rank, as in real text."""

    def __init__(self, chance: np.random.Generator) -> None:
        self._chance = chance
        letters = list("abdefghiklmnoprstu")
        ends = ["".join(chance.choice(letters, 4)) for _ in range(500)]
        self._words = [f"{a}{b}{c}" for c in ends for a in "bdfgklmnprst" for b in "aeiou"]
        shares = 1 / (np.arange(len(self._words)) + 2.7)
        self._shares = np.cumsum(shares / shares.sum())
        telling = np.where(np.arange(len(shares)) < COMMON_WORDS, 0, shares)
        self._telling = np.cumsum(telling / telling.sum())

    def sentence(self, count: int) -> str:
        return " ".join(self._drawn(self._shares, count)) + "."

    def question(self) -> str:
        """Six words that are none of the commonest: those are no part of a search."""
        return "what is " + " ".join(self._drawn(self._telling, 6))

    def _drawn(self, until: np.ndarray, count: int) -> list[str]:  # type: ignore[type-arg]
        """`until`: the share of all words up to and with each."""
        places = np.searchsorted(until, self._chance.random(count))
        return [self._words[min(place, len(self._words) - 1)] for place in places]


class ChanceEmbedder:
    """The real one for questions, so that their time is real; chance for passages."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._chance = np.random.default_rng(2)
        self.fingerprint = "chance"
        self.size = embedder.size
        self.speaks_cjk = embedder.speaks_cjk

    def embed_passages(self, texts: list[str], is_wanted: object = None) -> np.ndarray:  # type: ignore[type-arg]
        vectors = self._chance.standard_normal((len(texts), self.size), np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed_query(self, text: str) -> np.ndarray:  # type: ignore[type-arg]
        return self._embedder.embed_query(text)

    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def wait(self, is_wanted: Callable[[], bool]) -> bool:
        return is_wanted()

    def close(self) -> None: ...


if __name__ == "__main__":
    sys.exit(main())
