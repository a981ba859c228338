from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import Busy, DiskFull, StorageError
from app.knowledge import base as base_module
from app.knowledge import base_file, embedding, export, schema
from app.knowledge.base import KnowledgeBase
from app.knowledge.base_file import checked_name, name_for
from app.knowledge.bases import KnowledgeBases
from app.knowledge.errors import (
    BadBaseName,
    BadRoot,
    EmbedderChanged,
    IndexDamaged,
    IndexNewer,
    KnowledgeError,
    NoSuchBase,
)
from app.knowledge.index_file import suspicion
from app.knowledge.reading_child import ReadingChild
from app.knowledge.readings import note_reading
from app.knowledge.sync_lock import syncing
from app.paths import Paths
from app.store.database import connect
from engine.errors import LocalchatError
from tests.app.knowledge.base_laws import found, seen
from tests.app.knowledge.hash_embedder import HashEmbedder
from tests.app.knowledge.local_reading import LocalReading


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured for refusals, and no process is started: these tests need neither."""
    monkeypatch.setattr(KnowledgeBase, "_calibrate", lambda *arguments: None)
    monkeypatch.setattr(base_module, "ReadingChild", LocalReading)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(30):
        (docs / f"{number}.md").write_text(f"# Note {number}\n\nalpha {number} shared beta")
    return docs


@pytest.fixture
def bases(tmp_path: Path) -> KnowledgeBases:
    return KnowledgeBases(Paths.under(tmp_path / "home"), HashEmbedder())


@pytest.fixture
def index_file(tmp_path: Path, bases: KnowledgeBases, docs: Path) -> Path:
    """Of a synced and closed base."""
    with bases.create("work", [docs]) as base:
        base.sync()
    return tmp_path / "home/data/knowledge/work/index.sqlite3"


def test_bases_are_made_listed_opened_and_removed(bases: KnowledgeBases, docs: Path) -> None:
    assert bases.names() == []
    bases.create("work", [docs]).close()
    bases.create("Über Ich").close()
    assert bases.names() == ["work", "Über Ich"]
    with bases.open("work") as base:
        assert base.roots == (docs,)
    assert bases.remove("work") == ()
    assert bases.names() == ["Über Ich"]
    assert len(list(docs.iterdir())) == 30
    with pytest.raises(NoSuchBase, match="Über Ich"):
        bases.open("work")


def test_what_was_read_whole_is_named_once_when_the_base_goes(bases: KnowledgeBases) -> None:
    base = bases.create("work")
    base.close()
    for name in ("a", "b", "a"):
        note_reading(base.folder, name)
    assert bases.remove("work") == ("a", "b")
    note_reading(base.folder, "late")
    assert not base.folder.exists()


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "a/b", "/etc", "a\\b", "a\nb", " a", "a:b", "x" * 65, "\x1b[31m", "~"),
        *("-x", "\u0301a", "a\ufe0f", "a\u200d", "a\u034f", "\udcff"),
    ],
)
def test_a_name_is_never_a_path(bases: KnowledgeBases, name: str) -> None:
    for act in (bases.create, bases.open, bases.remove, bases.rebuild):
        with pytest.raises(BadBaseName) as caught:
            act(name)
        assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("name", ["caf\u00e9", "\u0939\u093f\u0928\u094d\u0926\u0940 2", "_a-"])
def test_a_name_is_the_same_however_its_letters_are_composed(
    bases: KnowledgeBases, name: str
) -> None:
    with bases.create(unicodedata.normalize("NFD", name)) as base:
        shutil.copytree(base.folder, base.folder.with_name(f"{name}.bak"))
    assert bases.names() == [name]
    with pytest.raises(BadBaseName, match="already"):
        bases.create(name)
    with bases.open(unicodedata.normalize("NFD", name)) as base:
        assert base.name == name


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("हिन्दी दस्तावेज़", "हिन्दी दस्तावेज़"),
        ("日本語" * 20, ("日本語" * 20)[:21]),
        ("-a  [b]", "a b"),
        ("🎉", "documents"),
        ("a\u202eb\udcff", "a U 202E b xff"),
    ],
)
def test_the_name_proposed_for_a_folder_is_one_that_a_base_can_have(folder: str, name: str) -> None:
    assert name_for(Path("/x", folder)) == checked_name(name)


def test_a_folder_that_cannot_be_looked_into_is_not_added(
    bases: KnowledgeBases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(base_file.os, "scandir", closed)
    with pytest.raises(StorageError, match="No permission"):
        bases.create("new", [tmp_path])
    assert bases.names() == []


def test_a_name_is_taken_once_and_a_root_must_be_there(
    bases: KnowledgeBases, docs: Path, tmp_path: Path
) -> None:
    bases.create("work").close()
    with pytest.raises(BadBaseName, match="already"):
        bases.create("work")
    with pytest.raises(KnowledgeError, match="nowhere"):
        bases.create("new", [tmp_path / "nowhere"])
    assert bases.names() == ["work"]
    with bases.open("work") as base, pytest.raises(KnowledgeError, match="nowhere"):
        base.add(tmp_path / "nowhere")


def test_roots_do_not_overlap(bases: KnowledgeBases, docs: Path) -> None:
    inner = docs / "inner"
    inner.mkdir()
    with bases.create("work", [inner]) as base:
        base.add(docs)
        assert base.roots == (docs,)
        base.add(docs)
        with pytest.raises(KnowledgeError, match="part of"):
            base.add(inner)
        with pytest.raises(KnowledgeError, match="no folder of work"):
            base.drop(inner)


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_folder_is_one_root_by_whatever_links_it_is_named(
    bases: KnowledgeBases, docs: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(docs)
    with bases.create("work", [link]) as base:
        for again in (docs, docs / "inner"):
            again.mkdir(exist_ok=True)
            with pytest.raises(BadRoot, match="part of"):
                base.add(again)
        base.add(link)
        assert base.roots == (link,)
        base.add(tmp_path)
        assert base.roots == (tmp_path,)


def test_folders_that_two_programs_add_at_once_are_all_there(
    bases: KnowledgeBases, tmp_path: Path
) -> None:
    folders = [tmp_path / f"folder {number}" for number in range(40)]
    for folder in folders:
        folder.mkdir()

    def add(some: list[Path]) -> None:
        with bases.open("work") as base:
            for folder in some:
                base.add(folder)

    bases.create("work").close()
    threads = [threading.Thread(target=add, args=(folders[part::4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with bases.open("work") as base:
        assert sorted(base.roots) == sorted(folders)


def test_everything_of_a_base_is_the_owners_alone(index_file: Path) -> None:
    folder = index_file.parent
    for path in [folder, *folder.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def damage_met(bases: KnowledgeBases, index_file: Path) -> IndexDamaged | None:
    """By one who opens, reads and syncs it."""
    try:
        with bases.open("work") as base:
            base.export(index_file.parent / "export.jsonl")
            base.sync()
    except IndexDamaged as error:
        return error
    return None


@pytest.mark.parametrize("place", [0, 20, 100, 4096, 3 * 4096, -4096])
def test_damage_is_told_and_a_rebuild_gives_the_same_index(
    bases: KnowledgeBases, index_file: Path, place: int
) -> None:
    with bases.open("work") as base:
        whole = seen(base)
    data = bytearray(index_file.read_bytes())
    start = place % len(data)
    data[start : start + 64] = b"\xa5" * 64
    index_file.write_bytes(data)
    error = damage_met(bases, index_file)
    # A flipped byte of a text is not told from another text.
    assert error is None or ("work" in error.title and "--rebuild" in error.next_step)
    with bases.rebuild("work") as base:
        base.sync()
        assert seen(base) == whole


def test_no_database_at_all_is_told(bases: KnowledgeBases, index_file: Path) -> None:
    index_file.write_bytes(b"not a database" * 100)
    with pytest.raises(IndexDamaged):
        bases.open("work")
    index_file.unlink()
    index_file.mkdir()
    with pytest.raises(KnowledgeError):
        bases.open("work")
    with bases.rebuild("work") as base:
        assert base.sync().added == 30


def test_an_index_that_is_gone_or_empty_is_made_again(
    bases: KnowledgeBases, index_file: Path
) -> None:
    with bases.open("work") as base:
        whole = seen(base)
    index_file.write_bytes(b"")
    with bases.open("work") as base:
        base.sync()
        assert seen(base) == whole
    index_file.unlink()
    with bases.open("work") as base:
        base.sync()
        assert seen(base) == whole


def test_damage_met_while_it_is_open_is_looked_for_at_the_next_opening(
    bases: KnowledgeBases, index_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.knowledge.index_file.CHECK_BYTES", 0)
    data = bytearray(index_file.read_bytes())
    for start in range(8 * 4096, len(data), 4096):
        data[start : start + 16] = b"\xa5" * 16
    index_file.write_bytes(data)
    with bases.open("work") as base, pytest.raises(IndexDamaged):
        base.export(index_file.parent / "export.jsonl")
    assert suspicion(index_file).exists()
    with pytest.raises(IndexDamaged):
        bases.open("work")


def test_an_index_of_a_newer_program_is_left_alone(bases: KnowledgeBases, index_file: Path) -> None:
    connection = connect(index_file)
    connection.execute(f"PRAGMA user_version = {len(schema.STEPS) + 1}")
    connection.close()
    before = index_file.read_bytes()
    with pytest.raises(IndexNewer, match="newer"):
        bases.open("work")
    assert index_file.read_bytes() == before


def test_an_index_of_an_older_program_takes_the_steps_it_lacks(
    bases: KnowledgeBases, index_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_shape(connection) -> None:
        connection.execute("CREATE TABLE news (id INTEGER PRIMARY KEY)")

    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, next_shape))
    with bases.open("work") as base:
        assert found(base, "alpha")
        with base.index.read() as connection:
            assert schema.version_of(connection) == 2
            assert connection.execute("SELECT count(*) FROM news").fetchone() == (0,)


def test_a_full_disk_is_told_and_costs_nothing_that_was_stored(
    bases: KnowledgeBases, docs: Path
) -> None:
    with bases.create("work", [docs]) as base:
        connection = fill_disk(base, docs)
        with pytest.raises(DiskFull, match="full"):
            base.sync()
        assert not base.rescan(), "a question is answered all the same"
        connection.execute("PRAGMA max_page_count = 1000000").fetchall()
        assert base.sync().is_complete
        assert len(found(base, "alpha")) == 30


@pytest.mark.timeout(60)
def test_a_base_is_closed_by_an_error_in_the_middle_of_reading(
    bases: KnowledgeBases, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_module, "ReadingChild", ReadingChild)
    base = bases.create("work", [docs])
    fill_disk(base, docs)
    with pytest.raises(DiskFull), base:
        base.sync()
    assert base._child.pid is None


def fill_disk(base: KnowledgeBase, docs: Path) -> sqlite3.Connection:
    """Leaves less room than the documents need, on the connection that writes."""
    connection = base.index._writes._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}").fetchall()
    for number in range(30):
        (docs / f"{number}.md").write_text(f"alpha {number} " + "word " * 2000)
    return connection


def test_another_embedder_searches_by_words_until_all_is_embedded_again(
    bases: KnowledgeBases, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "BATCH", 8)
    with bases.create("work", [docs]) as base:
        base.sync()
    other = KnowledgeBases(Paths.under(tmp_path / "home"), HashEmbedder("hash-2", 8))
    with other.open("work") as base:
        (docs / "new.md").write_text("gamma")
        with pytest.raises(EmbedderChanged, match="hash-1"):
            base.sync()
        assert found(base, "gamma") == {"new.md"}, "the words are in step"
        assert base.vectors() is None
        stopped = base.sync(
            lambda progress: progress.phase == "reading" or progress.done < 1,
            replace_embedder=True,
        )
        assert not stopped.is_complete
        assert base.vectors() is None
        assert base.index.embedder == "hash-1"
        base.sync()
        vectors = base.vectors()
        assert vectors is not None
        assert (vectors.size, base.status().embedded_chunks) == (8, 31)
    assert len(list((tmp_path / "home/data/knowledge/work").glob("vectors-*"))) == 1


class GoneEmbedder(HashEmbedder):
    """Its model was moved."""

    @property
    def fingerprint(self) -> str:
        raise LocalchatError("There is no file x.gguf.")

    @fingerprint.setter
    def fingerprint(self, name: str) -> None:
        pass


def test_an_embedder_whose_model_is_gone_costs_the_meaning_only(
    bases: KnowledgeBases, docs: Path, tmp_path: Path
) -> None:
    with bases.create("work", [docs]) as base:
        base.sync()
    with KnowledgeBases(Paths.under(tmp_path / "home"), GoneEmbedder()).open("work") as base:
        (docs / "new.md").write_text("gamma")
        with pytest.raises(LocalchatError, match="no file"):
            base.sync()
        assert [one.name for one in base.query("gamma").passages] == ["new.md"]


def test_one_process_writes_and_the_others_read(bases: KnowledgeBases, docs: Path) -> None:
    with bases.create("work", [docs]) as base:
        base.sync()
        (docs / "new.md").write_text("gamma")
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(base.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        assert holder.stdin is not None
        assert holder.stdout is not None
        with holder.stdin, holder.stdout:
            assert holder.stdout.readline() == b"held\n"
            assert base.status().is_syncing
            with pytest.raises(Busy, match=str(holder.pid)):
                base.sync()
            assert not base.rescan()
            assert len(found(base, "alpha")) == 30
            for act in (bases.remove, bases.rebuild):
                with pytest.raises(Busy):
                    act("work")
        holder.kill()
        holder.wait()
        assert not base.status().is_syncing
        assert base.rescan()
        assert found(base, "gamma") == {"new.md"}


HOLD = """
import pathlib, sys
from app.knowledge.sync_lock import syncing
with syncing(pathlib.Path(sys.argv[1]), "work"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_what_one_connection_writes_another_finds(bases: KnowledgeBases, docs: Path) -> None:
    with bases.create("work", [docs]) as writer, bases.open("work") as reader:
        assert reader.index.chunk_count == 0
        writer.sync()
        assert reader.index.chunk_count == 30
        assert seen(reader) == seen(writer)


def test_an_index_that_another_program_rebuilt_is_opened_anew(
    bases: KnowledgeBases, docs: Path
) -> None:
    with bases.create("work", [docs]) as base:
        base.sync()
        (docs / "new.md").write_text("gamma")
        with bases.rebuild("work") as other:
            other.sync()
            whole = seen(other)
        assert base.sync().unchanged == 31
        assert seen(base) == whole


def test_a_base_that_another_program_removed_is_told_and_not_made_again(
    bases: KnowledgeBases, docs: Path
) -> None:
    with bases.create("work", [docs]) as base:
        base.sync()
        bases.remove("work")
        with pytest.raises(NoSuchBase, match="any more"):
            base.sync()
    assert not base.folder.exists()


def test_a_base_can_be_closed_while_another_thread_syncs_it(
    bases: KnowledgeBases, docs: Path
) -> None:
    base = bases.create("work", [docs])
    began = threading.Event()
    reports: list[bool] = []

    def sync() -> None:
        report = base.sync(lambda progress: began.set())
        reports.append(report.is_complete)

    thread = threading.Thread(target=sync)
    thread.start()
    began.wait()
    base.close()
    thread.join()
    assert reports in ([False], [True])
    with bases.open("work") as again:
        assert again.sync().is_complete


def test_an_export_holds_every_chunk_once(
    bases: KnowledgeBases, docs: Path, tmp_path: Path
) -> None:
    with bases.create("work", [docs]) as base:
        base.sync()
        base.export(tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(line["name"] for line in lines) == sorted(path.name for path in docs.iterdir())
    assert all(line["text"].startswith("# Note") and line["first_line"] == 1 for line in lines)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_an_export_into_a_pipe_is_read_at_its_other_end(
    bases: KnowledgeBases, docs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "link"
    os.mkfifo(tmp_path / "pipe")
    out.symlink_to(tmp_path / "pipe")
    with bases.create("work", [docs]) as base:
        base.sync()
        with subprocess.Popen(["cat", out], stdout=subprocess.PIPE) as reader:
            base.export(out)
            assert reader.stdout is not None
            assert len(reader.stdout.read().splitlines()) == 30
    assert (tmp_path / "pipe").is_fifo()
    assert out.is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_an_export_into_a_pipe_without_a_name_ends_with_its_reader(
    bases: KnowledgeBases, docs: Path
) -> None:
    reader, writer = os.pipe()
    out = Path(f"/dev/fd/{writer}")
    with bases.create("work", [docs]) as base:
        base.sync()
        base.export(out)
        assert len(os.read(reader, 1 << 16).splitlines()) == 30
        os.close(reader)
        with pytest.raises(BrokenPipeError):
            base.export(out)
    os.close(writer)


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(
    bases: KnowledgeBases, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "old.jsonl").write_text("old")
    with bases.create("work", [docs]) as base:
        monkeypatch.setattr(export, "exported", failing)
        with pytest.raises(StorageError, match="disk is full"):
            base.export(folder / "old.jsonl")
    assert [path.name for path in folder.iterdir()] == ["old.jsonl"]
    assert (folder / "old.jsonl").read_text() == "old"


def failing(index: object) -> Iterator[dict[str, str]]:
    yield {"text": "x"}
    raise OSError(errno.ENOSPC, "No space left on device")


def test_removing_what_was_synced_leaves_no_word_of_it(index_file: Path, docs: Path) -> None:
    (docs / "1.md").unlink()
    bases = KnowledgeBases(Paths(*[index_file.parents[3] / each for each in FOLDERS]))
    with bases.open("work") as base:
        base.sync()
    assert b"alpha 1 shared" not in index_file.read_bytes()
    assert b"alpha 2 shared" in index_file.read_bytes()


FOLDERS = ("config", "data", "state", "cache")


def test_the_lock_of_a_sync_is_free_after_it(bases: KnowledgeBases, docs: Path) -> None:
    with bases.create("work", [docs]) as base:
        base.sync()
        with syncing(base.folder, "work"), pytest.raises(Busy, match="brought up to date"):
            base.sync()
        base.sync()
