from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.errors import Busy
from app.knowledge import base as base_module
from app.knowledge import changes, embedding, watch
from app.knowledge import pause as pauses
from app.knowledge.base import KnowledgeBase
from app.knowledge.bases import KnowledgeBases
from app.knowledge.changes import Changes
from app.knowledge.embedder import ENDED, EmbeddingEnded
from app.knowledge.pause import Pause
from app.knowledge.states import SyncReport
from app.knowledge.sync_lock import syncing
from app.knowledge.watch import Watch
from app.paths import Paths
from tests.app.knowledge.base_laws import found
from tests.app.knowledge.hash_embedder import HashEmbedder
from tests.app.knowledge.local_reading import LocalReading
from tests.patience import PATIENCE_S, becomes


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured for refusals, no process is started, and nobody waits long."""
    monkeypatch.setattr(KnowledgeBase, "_calibrate", lambda *arguments: None)
    monkeypatch.setattr(base_module, "ReadingChild", LocalReading)
    monkeypatch.setattr(changes, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(changes, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(changes, "SOON_SECONDS", 10 * PATIENCE_S)
    monkeypatch.setattr(watch, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(pauses, "RESUME_AFTER_S", 0.1)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "a.md").write_text("alpha")
    return docs


@pytest.fixture
def base(tmp_path: Path, docs: Path) -> Iterator[KnowledgeBase]:
    bases = KnowledgeBases(Paths.under(tmp_path / "home"), HashEmbedder())
    with bases.create("work", [docs]) as base:
        yield base


@pytest.fixture
def no_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told after the first sync."""
    silent = SimpleNamespace(start=lambda: None, stop=lambda: None)
    monkeypatch.setattr(watch, "Changes", lambda *arguments: silent)


def comes_to_rest(reports: list[SyncReport]) -> bool:
    """Whether there is a while without a report before patience ends."""

    def rests() -> bool:
        count = len(reports)
        time.sleep(0.7)
        return len(reports) == count

    return becomes(rests)


@pytest.fixture
def watched(base: KnowledgeBase) -> Iterator[list[SyncReport]]:
    """The reports of a watch that runs."""
    reports: list[SyncReport] = []
    running = Watch(base, on_report=reports.append)
    running.start()
    assert becomes(lambda: base.is_watched)
    yield reports
    running.stop()
    assert not base.is_watched
    assert not [each for each in threading.enumerate() if each.name in ("watch", "changes")]


def follow_changes(base: KnowledgeBase, docs: Path) -> None:
    assert becomes(lambda: found(base, "alpha") == {"a.md"})
    (docs / "sub/b.md").write_text("beta")
    assert becomes(lambda: found(base, "beta") == {"sub/b.md"})
    (docs / "new").mkdir()
    (docs / "new/c.md").write_text("gamma")
    assert becomes(lambda: found(base, "gamma") == {"new/c.md"})
    (docs / "a.md").rename(docs / "new/d.md")
    assert becomes(lambda: found(base, "alpha") == {"new/d.md"})
    (docs / "sub/b.md").unlink()
    assert becomes(lambda: found(base, "beta") == set())
    assert becomes(lambda: base.status().embedded_chunks == base.status().chunks == 2)


def test_edits_new_folders_renames_and_deletions_are_followed(
    base: KnowledgeBase, docs: Path, watched: list[SyncReport]
) -> None:
    follow_changes(base, docs)
    count = len(watched)
    assert base.rescan()
    assert len(watched) == count, "a question need not look at the disk"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ('print(\'{"error": "OS file watch limit reached."}\')', "watch limit"),
        ("print('half', end='')", "has ended"),
        ("raise SystemExit(1)", "has ended"),
    ],
)
def test_where_the_system_cannot_tell_it_is_looked_and_told(
    base: KnowledgeBase, docs: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    command = (sys.executable, "-S", "-c", code)
    monkeypatch.setattr(watch, "Changes", partial(Changes, command=command))
    notices: list[str] = []
    running = Watch(base, on_notice=notices.append)
    running.start()
    try:
        follow_changes(base, docs)
        assert becomes(lambda: len(notices) == 1)
    finally:
        running.stop()
    assert len(notices) == 1
    assert why in notices[0]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are text there")
def test_a_name_that_is_no_text_is_followed_without_looking_again_and_again(
    base: KnowledgeBase, docs: Path
) -> None:
    notices: list[str] = []
    running = Watch(base, on_notice=notices.append)
    running.start()
    try:
        assert becomes(lambda: found(base, "alpha") == {"a.md"})
        odd = docs / os.fsdecode(b"odd \xff.md")
        odd.write_text("odd")
        assert becomes(lambda: found(base, "odd") == {"odd \\xff.md"})
        odd.unlink()
        assert becomes(lambda: not found(base, "odd"))
    finally:
        running.stop()
    assert notices == []


def test_a_root_that_goes_and_comes_back_is_followed_again(
    base: KnowledgeBase, docs: Path, watched: list[SyncReport]
) -> None:
    away = docs.rename(docs.with_name("away"))
    assert becomes(lambda: base.status().missing_roots == (docs,))
    assert found(base, "alpha") == {"a.md"}
    (away / "b.md").write_text("beta")
    away.rename(docs)
    assert becomes(lambda: found(base, "beta") == {"b.md"})
    (docs / "c.md").write_text("gamma")
    assert becomes(lambda: found(base, "gamma") == {"c.md"})


def test_a_root_that_is_deleted_and_made_again_is_followed(
    base: KnowledgeBase, docs: Path, watched: list[SyncReport]
) -> None:
    """Some file systems give the new folder the number of the old one."""
    assert becomes(lambda: found(base, "alpha") == {"a.md"})
    time.sleep(0.3)  # Watching has begun.
    shutil.rmtree(docs)
    docs.mkdir()
    assert becomes(lambda: not found(base, "alpha"))
    time.sleep(0.3)
    (docs / "b.md").write_text("beta")
    assert becomes(lambda: found(base, "beta") == {"b.md"})


def test_a_root_that_is_added_is_followed(
    base: KnowledgeBase, docs: Path, watched: list[SyncReport]
) -> None:
    other = docs.with_name("other")
    other.mkdir()
    base.add(other)
    (other / "b.md").write_text("beta")
    assert becomes(lambda: found(base, "beta") == {"b.md"})


def test_a_change_goes_before_the_embedding(
    base: KnowledgeBase, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedder gives one vector for each that the test allows."""
    monkeypatch.setattr(embedding, "BATCH", 1)
    (docs / "c.md").write_text("gamma")
    allowed, asked = threading.Semaphore(0), threading.Event()
    embed = base.embedder.embed_passages

    def slow(texts: list[str], is_wanted: object) -> object:
        asked.set()
        assert allowed.acquire(timeout=PATIENCE_S)
        return embed(texts)

    base.embedder.embed_passages = slow
    running = Watch(base)
    running.start()
    try:
        assert asked.wait(PATIENCE_S)
        (docs / "b.md").write_text("beta")
        assert becomes(running._wanted.is_set)
        allowed.release()
        assert becomes(lambda: found(base, "beta") == {"b.md"})
        assert base.status().embedded_chunks == 1
        allowed.release(5)
        assert becomes(lambda: base.status().embedded_chunks == 3)
    finally:
        allowed.release(5)
        running.stop()


def test_a_change_is_followed_while_an_answer_holds_the_embedding_up(
    base: KnowledgeBase, docs: Path
) -> None:
    pause = Pause()
    pause.begin()
    embed = base.embedder.embed_passages

    def held(texts: list[str], is_wanted: Callable[[], bool]) -> object:
        if not pause.wait(is_wanted):
            raise EmbeddingEnded(ENDED)
        return embed(texts)

    base.embedder.embed_passages = held
    running = Watch(base)
    running.start()
    try:
        assert becomes(lambda: found(base, "alpha") == {"a.md"})
        (docs / "a.md").unlink()
        assert becomes(lambda: not found(base, "alpha"))
        (docs / "b.md").write_text("beta")
        assert becomes(lambda: found(base, "beta") == {"b.md"})
        assert base.status().embedded_chunks == 0
        assert becomes(lambda: base.is_watched), "its words are in step"
        pause.end()
        assert becomes(lambda: base.status().embedded_chunks == 1)
    finally:
        pause.close()
        running.stop()


def test_an_embedder_that_was_ended_is_not_asked_again_at_once(
    base: KnowledgeBase, no_changes: None
) -> None:
    asked: list[float] = []

    def ended(texts: list[str], is_wanted: object) -> object:
        asked.append(time.monotonic())
        raise EmbeddingEnded(ENDED)

    base.embedder.embed_passages = ended
    running = Watch(base)
    running.start()
    try:
        assert becomes(lambda: len(asked) >= 8)
    finally:
        running.stop()
    assert asked[7] - asked[0] >= 7 * watch.BUSY_SECONDS


def test_while_another_process_is_at_it_the_watch_waits(base: KnowledgeBase, docs: Path) -> None:
    running = Watch(base)
    with syncing(base.folder, "work"):
        running.start()
        time.sleep(0.3)
        assert not base.is_watched
    try:
        assert becomes(lambda: found(base, "alpha") == {"a.md"})
    finally:
        running.stop()


@pytest.mark.parametrize("is_linked", [False, True])
def test_the_index_below_a_root_is_no_change(tmp_path: Path, is_linked: bool) -> None:
    """The data folder may lie in the folder that is followed: a sync must not start the next."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("alpha")
    (tmp_path / "link").symlink_to(docs)
    bases = KnowledgeBases(Paths.under(docs / "home"), HashEmbedder())
    reports: list[SyncReport] = []
    with bases.create("work", [tmp_path / "link" if is_linked else docs]) as base:
        running = Watch(base, on_report=reports.append)
        running.start()
        try:
            assert becomes(lambda: base.is_watched)
            assert comes_to_rest(reports)
            (docs / "b.md").write_text("beta")
            assert becomes(lambda: found(base, "beta") == {"b.md"})
            assert comes_to_rest(reports)
        finally:
            running.stop()


def test_a_base_that_another_program_removes_is_watched_without_harm(
    tmp_path: Path, base: KnowledgeBase, watched: list[SyncReport]
) -> None:
    """A thread that ends by an error fails the test."""
    assert becomes(lambda: bool(watched))
    others = KnowledgeBases(Paths.under(tmp_path / "home"))
    for _ in range(100):  # A sync may be at it.
        try:
            others.remove("work")
            break
        except Busy:
            time.sleep(0.05)
    time.sleep(0.5)
    assert {"watch", "changes"} <= {each.name for each in threading.enumerate()}


def test_an_index_that_another_program_makes_again_is_opened_for_the_next_question(
    tmp_path: Path, base: KnowledgeBase, no_changes: None, watched: list[SyncReport]
) -> None:
    assert becomes(lambda: bool(watched))
    assert base.vectors() is not None
    with KnowledgeBases(Paths.under(tmp_path / "home"), HashEmbedder()).rebuild("work") as other:
        other.sync()
        assert base.is_watched
        assert base.index.is_replaced
        assert base.vectors() is None, "rows that the old index does not know"
        base.rescan()
        assert not base.index.is_replaced
        assert base.vectors() is not None
        assert found(base, "alpha") == {"a.md"}


@pytest.mark.parametrize(
    ("place", "expected"), [("/mnt/share/docs", True), ("/mnt/shared", False), ("/home", False)]
)
def test_a_network_disk_is_told_from_a_local_one(
    place: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil

    disks = [
        SimpleNamespace(mountpoint="/", fstype="ext4"),
        SimpleNamespace(mountpoint="/mnt/share", fstype="nfs4"),
    ]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: disks)
    assert changes.is_remote(Path(place)) is expected
