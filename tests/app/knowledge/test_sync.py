from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.knowledge import base as base_module
from app.knowledge import catalogue, file_bytes, root_reading, scan
from app.knowledge.base import KnowledgeBase
from app.knowledge.bases import KnowledgeBases
from app.knowledge.index_file import NAME as INDEX_FILE
from app.knowledge.states import SyncProgress, SyncReport
from app.knowledge.vectors import Vectors
from app.paths import Paths
from tests.app.knowledge.base_laws import found, seen
from tests.app.knowledge.hash_embedder import HashEmbedder
from tests.app.knowledge.local_reading import LocalReading


@dataclass
class Folder:
    """A folder of documents and its base."""

    path: Path
    base: KnowledgeBase
    embedder: HashEmbedder

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def sync(self) -> SyncReport:
        return self.base.sync()

    def embedded(self) -> int:
        """Texts since the last call."""
        count, self.embedder.texts = len(self.embedder.texts), []
        return count


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured for refusals, and no process is started: these tests need neither."""
    monkeypatch.setattr(KnowledgeBase, "_calibrate", lambda *arguments: None)
    monkeypatch.setattr(base_module, "ReadingChild", LocalReading)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    embedder = HashEmbedder()
    docs = tmp_path / "docs"
    docs.mkdir()
    bases = KnowledgeBases(Paths.under(tmp_path / "home"), embedder)
    with bases.create("work", [docs]) as base:
        made = Folder(docs, base, embedder)
        made.write("a.md", "# One\n\nalpha words\n\n# Two\n\nother text")
        made.write("sub/b.txt", "beta words here")
        yield made


def test_a_synced_folder_is_searched_and_a_second_sync_does_nothing(folder: Folder) -> None:
    report = folder.sync()
    assert (report.added, report.parsed, report.is_complete) == (2, 2, True)
    assert found(folder.base, "alpha") == {"a.md"}
    assert folder.embedded() == folder.base.status().embedded_chunks == report.embedded == 3
    before = seen(folder.base)
    report = folder.sync()
    assert (report.unchanged, report.parsed, report.embedded) == (2, 0, 0)
    assert (report.added, report.changed, report.removed) == (0, 0, 0)
    assert seen(folder.base) == before
    assert folder.embedded() == 0


def test_a_sync_that_finds_nothing_new_writes_nothing(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that questions can be asked on a full or busy disk, and what is remembered stays so."""
    monkeypatch.setattr(file_bytes, "DOUBT_NS", -(10**10))
    folder.sync()

    def changes() -> int:
        with folder.base.index.read() as connection:
            return connection.execute("SELECT changes FROM meta").fetchone()[0]

    before = changes()
    folder.sync()
    folder.base.rescan()
    assert changes() == before
    folder.write("a.md", "alpha")
    folder.sync()
    assert changes() > before


def test_an_edit_costs_its_file_and_the_vectors_of_its_new_texts(folder: Folder) -> None:
    folder.sync()
    folder.embedded()
    folder.write("a.md", "# One\n\nzeta words\n\n# Two\n\nother text")
    report = folder.sync()
    assert (report.changed, report.parsed, folder.embedded()) == (1, 1, 1)
    assert found(folder.base, "alpha") == set()
    assert found(folder.base, "zeta") == found(folder.base, "other") == {"a.md"}


def test_what_is_deleted_is_gone_with_its_words_and_vectors(folder: Folder) -> None:
    folder.sync()
    (folder.path / "a.md").unlink()
    assert folder.sync().removed == 1
    assert found(folder.base, "alpha other") == set()
    status = folder.base.status()
    assert (status.files, status.chunks, status.embedded_chunks) == (1, 1, 1)


def test_renamed_moved_and_exchanged_files_are_neither_read_nor_embedded(folder: Folder) -> None:
    a, c = folder.path / "a.md", folder.write("c.md", "gamma")
    folder.sync()
    folder.embedded()
    a.rename(folder.path / "renamed.md")
    report = folder.sync()
    assert (report.added, report.removed, report.parsed, report.embedded) == (1, 1, 0, 0)
    assert found(folder.base, "alpha") == found(folder.base, "renamed") == {"renamed.md"}
    moved = (folder.path / "renamed.md").rename(folder.path / "sub/a.md")
    assert folder.sync().parsed == 0
    assert found(folder.base, "renamed") == set()
    c.rename(a)
    moved.rename(c)
    report = folder.sync()
    assert (report.parsed, folder.embedded()) == (0, 0)
    assert found(folder.base, "alpha") == {"c.md"}
    assert found(folder.base, "gamma") == {"a.md"}
    a.rename(folder.path / "A.md")
    (folder.path / "sub").rename(folder.path / "Sub")
    report = folder.sync()
    assert (report.parsed, folder.embedded()) == (0, 0)
    assert found(folder.base, "gamma") == {"A.md"}
    assert found(folder.base, "beta") == {"Sub/b.txt"}


def test_a_file_replaced_by_a_folder_gives_way_to_what_is_in_it(folder: Folder) -> None:
    folder.sync()
    (folder.path / "a.md").unlink()
    folder.write("a.md/inner.md", "gamma")
    folder.sync()
    assert found(folder.base, "alpha") == set()
    assert found(folder.base, "gamma") == {"a.md/inner.md"}


def test_content_that_changes_under_its_old_time_is_seen(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_bytes, "DOUBT_NS", 0)
    path = folder.write("a.md", "alpha")
    folder.sync()
    times = path.stat()
    path.write_text("gamma")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert folder.sync().changed == 1
    assert found(folder.base, "gamma") == {"a.md"}


def test_a_file_is_hashed_again_while_its_time_can_lie(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.sync()
    hashed: list[str] = []
    real = root_reading.file_bytes
    monkeypatch.setattr(
        root_reading, "file_bytes", lambda found: hashed.append(found.relative) or real(found)
    )
    folder.sync()
    assert sorted(hashed) == ["a.md", "sub/b.txt"]
    monkeypatch.setattr(file_bytes, "DOUBT_NS", -(10**10))
    folder.sync()
    assert len(hashed) == 2
    os.utime(folder.path / "a.md", (2e9, 2e9))
    report = folder.sync()
    assert hashed[2:] == ["a.md"]
    assert (report.unchanged, report.parsed) == (2, 0)


def test_the_same_bytes_are_read_once_and_named_by_all_their_files(folder: Folder) -> None:
    folder.write("copy 1.md", "gamma shared")
    folder.write("sub/copy 2.md", "gamma shared")
    report = folder.sync()
    assert (report.added, report.parsed) == (4, 3)
    assert found(folder.base, "gamma") == {"copy 1.md", "sub/copy 2.md"}
    assert found(folder.base, "2") == {"copy 1.md", "sub/copy 2.md"}
    (folder.path / "copy 1.md").unlink()
    folder.sync()
    assert found(folder.base, "gamma") == {"sub/copy 2.md"}
    assert found(folder.base, "1") == set()


def test_the_same_bytes_read_in_another_way_are_another_document(folder: Folder) -> None:
    """Whichever came first: else the index would depend on the order."""
    folder.write("as.txt", "# Title\n\ngamma")
    folder.write("as", "# Title\n\ngamma")
    folder.sync()
    folder.write("as.md", "# Title\n\ngamma")
    assert folder.sync().parsed == 1
    hits = folder.base.index.search_words("gamma", 9)
    chunks = folder.base.index.chunk([hit.chunk_id for hit in hits])
    assert {(each.headings, len(each.other_names)) for each in chunks} == {((), 1), (("Title",), 0)}


def test_a_root_that_is_gone_keeps_its_index(folder: Folder) -> None:
    folder.sync()
    away = folder.path.rename(folder.path.with_name("away"))
    report = folder.sync()
    assert (report.missing_roots, report.removed) == ((folder.path,), 0)
    assert folder.base.status().missing_roots == (folder.path,)
    assert found(folder.base, "alpha") == {"a.md"}
    away.rename(folder.path)
    report = folder.sync()
    assert (report.missing_roots, report.parsed) == ((), 0)
    assert folder.base.status().missing_roots == ()


def test_an_empty_mount_point_keeps_the_index_and_an_emptied_folder_does_not(
    folder: Folder,
) -> None:
    folder.sync()
    for path in sorted(folder.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    files = folder.base.index.catalogue
    files.set_root_state(1, 12345, False)
    assert folder.sync().missing_roots == (folder.path,)
    assert found(folder.base, "alpha") == {"a.md"}
    files.set_root_state(1, folder.path.stat().st_dev, False)
    assert folder.sync().removed == 2
    assert folder.base.status().chunks == 0


def test_files_of_a_disk_below_the_root_stay_while_it_is_not_mounted(folder: Folder) -> None:
    """`sub` lay on a disk of its own when it was read, and is the bare mount point now."""
    folder.sync()
    (folder.path / "sub/b.txt").unlink()
    with folder.base.index._writes.write() as connection:
        connection.execute("UPDATE files SET device = 12345 WHERE relative = ?", (b"sub/b.txt",))
    assert folder.sync().removed == 0
    assert found(folder.base, "beta") == {"sub/b.txt"}


def test_a_disk_that_is_mounted_again_under_another_number_is_the_same(folder: Folder) -> None:
    folder.sync()
    with folder.base.index._writes.write() as connection:
        connection.execute("UPDATE files SET device = 12345")
        connection.execute("UPDATE roots SET device = 12345")
    (folder.path / "sub/b.txt").unlink()
    assert folder.sync().removed == 1


def test_a_folder_that_cannot_be_looked_into_keeps_its_files(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.sync()
    real = os.scandir

    def refused(path: object) -> object:
        if os.fspath(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refused)
    report = folder.sync()
    assert report.removed == 0
    assert [file.state for file in report.unfinished] == ["skipped: no permission"]
    assert found(folder.base, "beta") == {"sub/b.txt"}
    monkeypatch.setattr(os, "scandir", real)
    assert folder.sync().unfinished == ()


def test_a_file_that_may_not_be_read_any_more_is_out_until_it_may(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.sync()
    real = root_reading.file_bytes

    def refused(found: object) -> object:
        raise PermissionError(13, "Permission denied", "a.md")

    os.utime(folder.path / "a.md", (1, 1))
    monkeypatch.setattr(root_reading, "file_bytes", refused)
    folder.sync()
    assert found(folder.base, "alpha") == set()
    states = {file.name: file.state for file in folder.base.files()}
    assert states["a.md"] == "skipped: no permission"
    monkeypatch.setattr(root_reading, "file_bytes", real)
    folder.sync()
    assert found(folder.base, "alpha") == {"a.md"}


def test_a_file_that_changes_while_it_is_read_is_read_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = folder.base._child
    real = child.read_all
    writes = iter(["gamma", "delta"])

    def changing(files, **options):
        for result in real(files, **options):
            if (text := next(writes, None)) is not None:
                folder.write("a.md", text * 2)
            yield result

    monkeypatch.setattr(child, "read_all", changing)
    folder.sync()
    assert found(folder.base, "deltadelta") == {"a.md"}
    assert found(folder.base, "alpha gamma") == set()


def test_a_file_that_never_holds_still_is_left_for_the_next_sync(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = folder.base._child
    real = child.read_all
    counter = iter(range(1000))

    def changing(files, **options):
        for result in real(files, **options):
            folder.write("a.md", f"alpha {next(counter)}")
            yield result

    monkeypatch.setattr(child, "read_all", changing)
    report = folder.sync()
    assert [file.state for file in report.unfinished] == ["skipped: it changes while it is read"]
    monkeypatch.setattr(child, "read_all", real)
    assert folder.sync().unfinished == ()


def test_what_no_reader_can_read_is_tried_once(folder: Folder) -> None:
    (folder.path / "binary.md").write_bytes(bytes(range(256)) * 8)
    report = folder.sync()
    (file,) = report.unfinished
    assert (file.name, file.chunks) == ("binary.md", 0)
    assert file.state.startswith("skipped: ")
    (folder.path / "again.md").write_bytes(bytes(range(256)) * 8)
    report = folder.sync()
    assert report.parsed == 0
    assert {each.state for each in report.unfinished} == {file.state}


def test_a_file_that_was_out_of_reach_while_it_was_read_is_read_by_the_next_sync(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder went and came back: the file itself looks as it did."""
    real, away = folder.base._child.read_all, folder.path / "away"

    def out_of_reach(files: object, **options: object) -> Iterator[object]:
        for file in list(files):
            file.path.parent.rename(away)
            (result,) = real([file], **options)
            away.rename(file.path.parent)
            yield result

    monkeypatch.setattr(folder.base._child, "read_all", out_of_reach)
    (folder.path / "a.md").unlink()
    assert [file.state for file in folder.sync().unfinished] == ["skipped: the file is gone"]
    monkeypatch.setattr(folder.base._child, "read_all", real)
    assert folder.sync().unfinished == ()
    assert found(folder.base, "beta") == {"sub/b.txt"}


@pytest.mark.parametrize("left", [None, 0, 100])
def test_vectors_that_were_lost_are_made_again(folder: Folder, left: int | None) -> None:
    folder.sync()
    whole, asked = seen(folder.base), "alpha words"
    (path,) = folder.base.folder.glob("*.f32")
    if left is None:
        path.unlink()
    else:
        os.truncate(path, left)
    assert folder.base.vectors() is None, "what is lost is not searched"
    assert "a.md" in [each.name for each in folder.base.query(asked).passages]
    assert folder.sync().embedded == (2 if left else 3)
    assert seen(folder.base) == whole
    assert folder.base.vectors() is not None


def test_no_row_is_written_anew_before_what_freed_it_is_on_the_disk(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut would take the deletion back, and the old text had another's vector."""
    folder.sync()
    (folder.path / "a.md").write_text("all new")
    on_disk: list[int] = []
    written: list[int] = []
    log = folder.base.index.folder / f"{INDEX_FILE}-wal"
    real_sync, real_write = os.fsync, Vectors.write

    def fsync(descriptor: int) -> None:
        real_sync(descriptor)
        if os.path.sameopenfile(descriptor, opened):
            on_disk.append(log.stat().st_size)

    def write(vectors: Vectors, rows: list[int], made: object) -> None:
        assert on_disk, "nothing was settled"
        assert not changes_since(on_disk[-1])
        written.extend(rows)
        real_write(vectors, rows, made)

    def changes_since(size: int) -> bool:
        return log.stat().st_size != size

    opened = os.open(log, os.O_RDONLY)
    try:
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Vectors, "write", write)
        folder.sync()
    finally:
        os.close(opened)
    assert written[0] < 3, "a row that was freed"


def test_secrets_are_listed_and_not_read(folder: Folder) -> None:
    folder.write(".env", "alpha=secret")
    report = folder.sync()
    assert [(file.name, file.state) for file in report.unfinished] == [(".env", "skipped: secret")]
    assert found(folder.base, "secret") == set()


def test_the_programs_own_folders_are_no_documents(folder: Folder) -> None:
    home = folder.path.parent
    folder.base.add(home)
    folder.sync()
    assert folder.base.roots == (home,)
    assert found(folder.base, "alpha") == {"docs/a.md"}
    assert all(file.name.startswith(("docs/", "home/")) for file in folder.base.files())
    assert all(file.chunks == 0 for file in folder.base.files() if file.name[:5] == "home/")


def test_a_root_can_be_a_file(folder: Folder) -> None:
    single = folder.path.with_name("single note.md")
    single.write_text("gamma")
    folder.base.add(single)
    folder.sync()
    assert found(folder.base, "gamma") == found(folder.base, "single") == {"single note.md"}
    (hit,) = folder.base.index.search_words("gamma", 1)
    assert folder.base.index.chunk([hit.chunk_id])[0].path == single
    single.unlink()
    assert folder.sync().removed == 1
    assert found(folder.base, "gamma") == set()


def test_a_file_stays_while_the_disk_that_it_lies_on_is_away(folder: Folder) -> None:
    single = folder.path.with_name("single note.md")
    single.write_text("gamma")
    folder.base.add(single)
    folder.sync()
    single.unlink()
    with folder.base.index._writes.write() as connection:
        connection.execute("UPDATE roots SET device = 12345")
    assert folder.sync().missing_roots == (single,)
    assert found(folder.base, "gamma") == {"single note.md"}


def test_a_root_can_be_a_link_to_a_file(folder: Folder) -> None:
    link, target = folder.path.with_name("link.md"), folder.path.with_name("target.md")
    target.write_text("gamma")
    link.symlink_to(target)
    folder.base.add(link)
    assert folder.sync().unfinished == ()
    assert found(folder.base, "gamma") == {"link.md"}
    target.write_text("delta")
    folder.sync()
    assert found(folder.base, "delta") == {"link.md"}
    target.unlink()
    assert folder.sync().removed == 1


def test_what_cannot_be_asked_for_does_not_end_a_sync(folder: Folder) -> None:
    names = ["x" * 200] * 25
    here = os.open(folder.path, os.O_RDONLY)
    for name in names:  # A path that is longer than any call takes.
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert [file.state for file in folder.sync().unfinished] == ["skipped: the path is too long"]
    assert found(folder.base, "alpha") == {"a.md"}


def test_a_root_that_is_dropped_takes_its_files_along(folder: Folder) -> None:
    other = folder.path.with_name("other")
    other.mkdir()
    (other / "c.md").write_text("gamma shared")
    folder.write("c.md", "gamma shared")
    folder.base.add(other)
    report = folder.sync()
    assert (report.added, report.parsed) == (4, 3)
    folder.base.drop(folder.path)
    assert folder.sync().removed == 3
    assert found(folder.base, "gamma alpha beta") == {"c.md"}
    assert folder.base.status().files == 1


@pytest.mark.parametrize("calls", [1, 2, 5, 11, 43])
def test_a_sync_that_was_stopped_goes_on_to_the_same_index(folder: Folder, calls: int) -> None:
    for number in range(40):
        folder.write(f"more/{number % 20}.md", f"note {number % 20} shared alpha")
    left = iter(range(calls - 1))
    report = folder.base.sync(lambda progress: next(left, None) is not None)
    assert not report.is_complete
    assert folder.sync().is_complete
    stopped = seen(folder.base)
    with KnowledgeBases(Paths.under(folder.path.parent / "second home"), folder.embedder).create(
        "work", [folder.path]
    ) as whole:
        whole.sync()
        assert seen(whole) == stopped


def test_a_long_look_through_a_folder_can_be_stopped(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.sync()
    for number in range(20):
        folder.write(f"{number}.md", f"gamma {number}")
    (folder.path / "a.md").unlink()
    monkeypatch.setattr(scan, "TELL_FILES", 5)
    told: list[SyncProgress] = []

    def stop(progress: SyncProgress) -> bool:
        told.append(progress)
        return len(told) < 3

    assert not folder.base.sync(stop).is_complete
    assert [progress.total for progress in told] == [0, 0, 0]
    assert found(folder.base, "alpha") == {"a.md"}, "nothing is known before the look is over"
    assert folder.sync().is_complete
    assert len(found(folder.base, "gamma")) == 20


def test_progress_names_files_and_says_when_words_can_be_searched(folder: Folder) -> None:
    told: list[SyncProgress] = []
    folder.base.sync(told.append)
    reading = [each for each in told if each.phase == "reading"]
    assert {each.name for each in reading} == {"", "a.md", "sub/b.txt"}
    assert all(each.done < each.total == 2 for each in reading if each.name)
    assert [each.is_searchable for each in told] == [each.phase == "embedding" for each in told]


def test_documents_of_other_rules_are_made_again_and_keep_their_vectors(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.sync()
    before = seen(folder.base)
    folder.embedded()
    for module in (catalogue, scan, root_reading):
        monkeypatch.setattr(module, "RULES", "newer")
    report = folder.sync()
    assert (report.parsed, report.unchanged, folder.embedded()) == (2, 2, 0)
    assert seen(folder.base) == before
    assert folder.sync().parsed == 0


def test_names_that_are_no_text_are_shown_escaped_and_opened_right(folder: Folder) -> None:
    name = b"caf\xe9 \x1b[31m\n.md"
    path = Path(os.fsdecode(os.fsencode(folder.path) + b"/" + name))
    try:
        path.write_text("gamma")
    except OSError:
        pytest.skip("this file system takes text only")
    folder.sync()
    (hit,) = folder.base.index.search_words("gamma", 5)
    (chunk,) = folder.base.index.chunk([hit.chunk_id])
    assert chunk.path == path
    assert chunk.name.isprintable()
