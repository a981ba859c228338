"""A process that syncs a base and prints a line at each step, to be killed after one of them."""

from __future__ import annotations

import sys
from pathlib import Path

from app.knowledge.base import KnowledgeBase
from app.knowledge.bases import KnowledgeBases
from app.knowledge.states import SyncProgress
from app.paths import Paths
from tests.app.knowledge.hash_embedder import HashEmbedder


def main(home: Path) -> None:
    KnowledgeBase._calibrate = lambda *arguments: None  # type: ignore[method-assign]  # slow
    with KnowledgeBases(Paths.under(home), HashEmbedder()).open("work") as base:
        base.sync(tell)
    print("done", flush=True)


def tell(progress: SyncProgress) -> None:
    print(progress.phase, progress.done, progress.name, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
