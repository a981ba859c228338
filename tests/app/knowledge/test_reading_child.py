"""The process that reads: it may hang, die or run out of memory, and costs that file only."""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from app.knowledge.document import Document, Unreadable
from app.knowledge.reading.limits import Limits
from app.knowledge.reading.read import read
from app.knowledge.reading_child import ReadingChild, ReadingStopped
from tests.app.knowledge.made_pdf import file_of, stream, write_pdf
from tests.patience import have_ended


@pytest.fixture
def child() -> Iterator[ReadingChild]:
    child = ReadingChild(environment={**os.environ, "LOCALCHAT_DATA_DIR": "/secret"})
    yield child
    child.close()
    assert child.pid is None


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.md"
    path.write_text("# Oven\n\n你好 😀 hot\n", "utf-8")
    return path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Putting so many marks into their order takes Python for ever."""
    path = tmp_path / "endless.txt"
    path.write_text("a" + "\u0301\u0323" * 1_000_000, "utf-8")
    return path


def test_it_gives_what_reading_in_this_process_gives(child: ReadingChild, good: Path) -> None:
    assert child.pid is None
    assert child.read(good) == read(good)
    pid = child.pid
    pdf = write_pdf(good.with_name("a.pdf"), [["one"], ["two"]], bookmarks=[("B", 2)])
    assert child.read(pdf, root=good.parent) == read(pdf)
    gone = Unreadable("skipped: the file is gone", is_lasting=False)
    assert child.read(good.with_name("no.md")) == gone
    assert child.pid == pid


@pytest.mark.parametrize(
    "name", [b"a\n.md", "ü\u202e😀.md".encode(), b"\xff\xfe.md", b"x" * 252 + b".md"]
)
def test_any_name_is_opened(child: ReadingChild, tmp_path: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(tmp_path), name)
    try:
        with open(path, "wb") as file:
            file.write(b"text")
    except OSError:
        return  # this system has no such names
    found = child.read(Path(os.fsdecode(path)), root=tmp_path)
    assert isinstance(found, Document)
    assert found.text == "text"


def test_it_inherits_no_handle_and_no_setting_of_ours(child: ReadingChild, good: Path) -> None:
    with good.open() as file:
        os.set_inheritable(file.fileno(), True)
        child.read(good)
        process = psutil.Process(child.pid)
        assert not {name for name in process.environ() if name.startswith("LOCALCHAT")}
        assert "HOME" not in process.environ()
        assert process.open_files() == []
        if hasattr(process, "num_fds"):
            assert process.num_fds() == 3
        assert process.net_connections() == []


def test_a_file_that_hangs_costs_itself_only(good: Path, endless: Path) -> None:
    child = ReadingChild(seconds=1)
    try:
        found = child.read(endless)
        assert isinstance(found, Unreadable)
        assert found.state.startswith("skipped: stopped after ")
        assert isinstance(child.read(good), Document)
    finally:
        child.close()


def test_the_start_of_the_process_costs_no_file_its_time(good: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep(1.5)")
    search = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])
    child = ReadingChild(seconds=1, environment={**os.environ, "PYTHONPATH": search})
    try:
        assert isinstance(child.read(good), Document)
    finally:
        child.close()


def test_pages_that_come_one_by_one_have_time(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [[f"page {number}"] for number in range(20)])
    child = ReadingChild()
    seen: list[tuple[int, int]] = []
    try:
        found = child.read(path, progress=lambda done, total: seen.append((done, total)))
    finally:
        child.close()
    assert isinstance(found, Document)
    assert seen[0] == (0, 0)
    assert (0, 20) in seen
    assert seen == sorted(seen)


def test_a_file_that_ends_the_process_costs_itself_only(
    child: ReadingChild, good: Path, endless: Path
) -> None:
    child.read(good)
    first = child.pid

    def end(done: int, total: int) -> None:
        if child.pid is not None:
            psutil.Process(child.pid).kill()

    found = child.read(endless, progress=end)
    assert found == Unreadable("skipped: it ended the process that reads it")
    assert isinstance(child.read(good), Document)
    assert child.pid not in (None, first)


@pytest.mark.parametrize(
    ("name", "piece", "times"),
    [("wide.txt", "😀", 8_000_000), ("leaves.html", "<p>a<b>b</b>", 1_000_000)],
)
def test_memory_has_a_limit(good: Path, tmp_path: Path, name: str, piece: str, times: int) -> None:
    path = tmp_path / name
    path.write_text(piece * times, "utf-8")
    child = ReadingChild(memory_bytes=100 * 2**20)
    try:
        found = child.read(path)
        if hasattr(psutil, "RLIMIT_AS"):  # elsewhere nothing limits it
            assert found == Unreadable("skipped: it needs more than 100 MB of memory")
        assert isinstance(child.read(good), Document)
    finally:
        child.close()


def test_a_bomb_in_a_pdf_costs_itself_only(tmp_path: Path) -> None:
    packed = zlib.compress(zlib.compress(b"q " * 40_000_000, 1))
    assert len(packed) < 10_000
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>"
    bomb = tmp_path / "bomb.pdf"
    bomb.write_bytes(
        file_of(
            [
                b"<< /Type /Catalog /Pages 2 0 R >>",
                b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
                page,
                stream(packed, b"/Filter [/FlateDecode /FlateDecode]"),
            ]
        )
    )
    good = write_pdf(tmp_path / "good.pdf", [["one"], ["two"]])
    child = ReadingChild(memory_bytes=150 * 2**20)
    try:
        found = child.read(bomb)
        assert isinstance(found, Unreadable)
        if hasattr(psutil, "RLIMIT_AS"):  # elsewhere nothing limits it
            ends = ("skipped: it ended", "skipped: it needs more than 150 MB")
            assert found.state.startswith(ends)
        assert child.read(good) == read(good)
    finally:
        child.close()


def test_calls_from_many_threads_wait_for_each_other(child: ReadingChild, tmp_path: Path) -> None:
    paths = [write_pdf(tmp_path / f"{number}.pdf", [[f"text {number}"]] * 5) for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(child.read, paths))
    assert found == [read(path) for path in paths]


def test_it_can_be_stopped_in_the_middle(child: ReadingChild, good: Path, endless: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(ReadingStopped):
        child.read(endless, progress=lambda *_: time.monotonic() < begun + 0.1)
    assert child.pid is None
    assert isinstance(child.read(good), Document)


def test_closing_it_from_another_thread_ends_the_file(
    child: ReadingChild, good: Path, endless: Path
) -> None:
    child.read(good)
    closer = threading.Thread(target=child.close)

    def close(done: int, total: int) -> None:
        if closer.ident is None:
            closer.start()

    found = child.read(endless, progress=close)
    assert found == Unreadable("skipped: it ended the process that reads it")
    closer.join()


def test_limits_travel_to_it(good: Path) -> None:
    limits = replace(Limits(), characters=9)
    child = ReadingChild(limits)
    try:
        assert child.read(good) == read(good, limits=limits)
    finally:
        child.close()


def test_it_ends_with_its_parent(good: Path) -> None:
    child = ReadingChild()
    child.read(good)
    process = psutil.Process(child.pid)
    inner = child._process
    assert inner is not None
    assert inner.stdin is not None
    inner.stdin.close()  # what the system does when the parent dies
    assert have_ended([process])
    child.close()
