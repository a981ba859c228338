"""What tells of changes: nothing below the folders stays untold, and nothing else is looked at."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import watchfiles

from app.knowledge import changes_child
from app.knowledge.changes import COMMAND, Changes
from app.knowledge.changes_child import Job, folders_below, looks, places
from tests.patience import PATIENCE_S


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "one/two").mkdir(parents=True)
    return root


def job(*folders: Path, ours: Iterable[Path] = (), renew_s: float = 100) -> Job:
    return Job([str(folder) for folder in folders], [str(path) for path in ours], 0.1, renew_s)


def becomes(looking: Iterator[bool], wanted: bool) -> bool:
    """Whether a look says so before patience ends."""
    end = time.monotonic() + PATIENCE_S
    return any(told is wanted for told in looking if time.monotonic() < end)


@pytest.mark.parametrize("tells_of_trees", [False, True])
def test_the_first_look_tells_of_what_was_before_and_later_ones_of_changes_only(
    root: Path, monkeypatch: pytest.MonkeyPatch, tells_of_trees: bool
) -> None:
    monkeypatch.setattr(changes_child, "TELLS_OF_TREES", tells_of_trees)
    looking = looks(job(root, ours=[root / "one/ours"]))
    assert next(looking)
    assert not next(looking)
    (root / "one/two/a.md").write_text("alpha")
    assert becomes(looking, True)
    assert becomes(looking, False)
    assert not next(looking)


def test_a_link_is_not_followed_and_only_folders_for_documents_are_watched(root: Path) -> None:
    """Folders with links to each other are a tree without end to who follows them."""
    for name in (".git/objects", "node_modules/x", "home/index", "three"):
        (root / name).mkdir(parents=True)
    for number in range(12):
        (root / f"p{number}").mkdir()
        for other in range(12):
            (root / f"p{number}/to {other}").symlink_to(root / f"p{other}")
    (root / "out").symlink_to("/")
    expected = {root, *(root / name for name in ("one", "one/two", "three"))}
    expected |= {root / f"p{number}" for number in range(12)}
    told = folders_below([str(root)], [str(root / "home")])
    assert sorted(told) == sorted(map(str, expected))
    assert next(looks(job(root)))


@pytest.mark.skipif(changes_child.TELLS_OF_TREES, reason="the system watches the tree there")
@pytest.mark.parametrize("way", ["made", "moved here", "moved inside", "replaced"])
def test_looks_end_where_a_folder_is_not_watched(root: Path, tmp_path: Path, way: str) -> None:
    (tmp_path / "away/deep").mkdir(parents=True)
    looking = looks(job(root))
    assert [next(looking), next(looking)] == [True, False]
    match way:
        case "made":
            (root / "one/new/deep").mkdir(parents=True)
        case "moved here":
            (tmp_path / "away").rename(root / "here")
        case "moved inside":
            (root / "one").rename(root / "three")
        case "replaced":
            (root / "one/two").rmdir()
            (root / "one/two").mkdir()
    assert list(looking)[-1]


@pytest.mark.parametrize("way", ["root away and back", "root back", "root anew", "new folder"])
def test_looks_end_where_something_was_away_or_new_while_watching_began(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The library finds no folder there, and watches nothing without a word."""
    watching, nothing = watchfiles.watch, tmp_path / "nothing"
    nothing.mkdir()
    away = root.with_name("away")

    def without_folder(*arguments: str, **options: Any) -> Any:
        match way:
            case "root away and back":
                root.rename(away).rename(root)
            case "root back":
                away.rename(root)
            case "root anew":
                shutil.rmtree(root)
                root.mkdir()
            case "new folder":
                (root / "one/new").mkdir()
        return watching(nothing, **options)

    if way == "root back":
        root.rename(away)
    monkeypatch.setattr(watchfiles, "watch", without_folder)
    assert list(looks(job(root))) == [True]


def test_looks_go_on_where_the_root_gets_entries_all_the_time(root: Path) -> None:
    """It is not watched anew all the time."""
    is_enough = threading.Event()

    def write() -> None:
        number = 0
        while not is_enough.wait(0.01):
            number += 1
            (root / f"{number}.md").touch()

    writing = threading.Thread(target=write)
    writing.start()
    try:
        looking = looks(job(root))
        assert [next(looking) for _ in range(3)] == [True, True, True]
    finally:
        is_enough.set()
        writing.join()


def test_looks_end_after_a_while_for_what_the_system_leaves_out(root: Path) -> None:
    first, *later = looks(job(root, renew_s=0.3))
    assert first
    assert not any(later)


def test_what_is_mounted_below_the_folders_makes_them_others(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil

    def mounted(*points: Path) -> list[object]:
        disks = [SimpleNamespace(device="d", mountpoint=str(p), fstype="ext4") for p in points]
        monkeypatch.setattr(psutil, "disk_partitions", lambda all: disks)
        return places([str(root)])

    alone = mounted(Path("/"), root.parent, root.with_name("docs 2"))
    assert mounted(Path("/")) == alone
    assert mounted(Path("/"), root / "one") != alone


def test_a_link_that_leads_elsewhere_makes_the_folders_others(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    before = places([str(link)])
    assert places([str(link)]) == before
    link.unlink()
    link.symlink_to(root / "one")
    assert places([str(link)]) != before


def test_the_process_tells_in_lines_and_ends_with_the_folder_or_with_who_started_it(
    root: Path,
) -> None:
    for is_folder_lost in (True, False):
        with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            words = {"folders": [str(root)], "ours": [], "look_s": 0.1, "renew_s": 100}
            process.stdin.write(json.dumps(words).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"changed": True}
            if is_folder_lost:
                root.rename(root.with_name("away")).with_name("docs").mkdir()
            else:
                process.stdin.close()
            assert process.wait(PATIENCE_S) == 0


def test_who_waits_for_a_silent_process_can_stop(root: Path) -> None:
    hinted = threading.Event()
    silent = (sys.executable, "-S", "-c", "import time; print(flush=True); time.sleep(1000)")
    waiting = Changes(lambda: [root], [], hinted.set, lambda text: None, silent)
    waiting.start()
    assert hinted.wait(PATIENCE_S)
    waiting.stop()
