"""A sync that is killed at any moment, and the next one that goes on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.knowledge import embedding
from app.knowledge.base import KnowledgeBase
from app.knowledge.bases import KnowledgeBases
from app.paths import Paths
from tests.app.knowledge.base_laws import found, seen
from tests.app.knowledge.hash_embedder import HashEmbedder

FILES = 60
ROUNDS = int(os.environ.get("LOCALCHAT_KILL_ROUNDS", "3"))
"""Kills on the way to one complete index."""
SEEDS = int(os.environ.get("LOCALCHAT_KILL_SEEDS", "1"))


def write_documents(docs: Path, chance: random.Random) -> None:
    for number in range(FILES):
        path = docs / f"folder {number % 5}" / f"note {number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(chance.choices(["alpha", "beta", "gamma", "shared", "长城"], k=400))
        path.write_text(f"# Note {number % 50}\n\n{words if number % 6 else 'alpha shared'}\n")


def change_documents(docs: Path) -> None:
    """Edits, deletions, renames and copies, for the sync that is killed as well."""
    for number in range(0, FILES, 4):
        path = docs / f"folder {number % 5}" / f"note {number}.md"
        match number % 3:
            case 0:
                path.write_text(f"# New {number}\n\nbeta gamma {number}\n")
            case 1:
                path.unlink()
            case 2:
                path.rename(path.with_name(f"renamed {number}.md"))


def run_and_kill(home: Path, lines: int, wait: float) -> bool:
    """Whether it ended before it was killed, so many lines and seconds after its start."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.app.knowledge.killed_sync", str(home)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as out:
        last = ""
        for line, _ in zip(out, range(lines), strict=False):
            last = line
        time.sleep(wait)
        process.kill()
    process.wait()
    return last == "done\n"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_again_and_again_it_ends_in_the_same_index(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KnowledgeBase, "_calibrate", lambda *arguments: None)
    chance = random.Random(seed)
    docs, home = tmp_path / "docs", tmp_path / "home"
    write_documents(docs, chance)
    KnowledgeBases(Paths.under(home), HashEmbedder()).create("work", [docs]).close()
    kills = 0
    for number in range(ROUNDS):
        if number == ROUNDS // 2:
            change_documents(docs)
        kills += not run_and_kill(home, 1 + chance.randrange(60), chance.random() / 50)
    assert kills
    with KnowledgeBases(Paths.under(home), HashEmbedder()).open("work") as base:
        base.sync()
        killed = seen(base)
        assert base.status().embedded_chunks == base.status().chunks > 0
    with KnowledgeBases(Paths.under(tmp_path / "second"), HashEmbedder()).create(
        "work", [docs]
    ) as base:
        base.sync()
        whole = seen(base)
    assert killed.keys() == whole.keys()
    for part in whole:
        assert killed[part] == whole[part], part


def test_a_vector_that_was_written_and_not_named_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment between the two files: the row is there, the index does not know it."""
    embedder = HashEmbedder()
    with KnowledgeBase.temporary(tmp_path / "t", {"a": "alpha", "b": "beta"}, embedder) as base:
        monkeypatch.setattr(KnowledgeBase, "_calibrate", lambda *arguments: None)
        monkeypatch.setattr(
            embedding.Index, "set_vectors", lambda *arguments: (_ for _ in ()).throw(KeyError)
        )
        with pytest.raises(KeyError):
            base.sync()
        assert base.index.vector_slots() == {}
        monkeypatch.undo()
        monkeypatch.setattr(KnowledgeBase, "_calibrate", lambda *arguments: None)
        base.sync()
        assert len(seen(base)["vectors"]) == 2
        assert found(base, "beta") == {"b"}
