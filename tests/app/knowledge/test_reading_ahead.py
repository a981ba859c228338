"""Files that are asked for before the ones in front of them are answered."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.knowledge.document import Document, Unreadable
from app.knowledge.reading.read import read
from app.knowledge.reading_child import ReadingChild, ReadingStopped, WantedFile

COUNT = 40


@pytest.fixture
def child() -> Iterator[ReadingChild]:
    child = ReadingChild()
    yield child
    child.close()


@pytest.fixture
def files(tmp_path: Path) -> list[WantedFile]:
    found = []
    for number in range(COUNT):
        path = tmp_path / f"{number}.md"
        path.write_text(f"# {number}\n\n{'text ' * number}")
        found.append(WantedFile(path, tmp_path, path.stat().st_size))
    return found


@pytest.fixture
def endless(files: list[WantedFile]) -> Path:
    """The sixth: putting so many marks into their order takes Python for ever."""
    files[5].path.write_text("a" + "\u0301\u0323" * 1_000_000, "utf-8")
    return files[5].path


def test_answers_come_in_the_order_of_the_files(
    child: ReadingChild, files: list[WantedFile]
) -> None:
    assert list(child.read_all(files)) == [read(file.path) for file in files]
    assert list(child.read_all([])) == []


def test_files_are_taken_only_as_far_ahead_as_allowed(
    child: ReadingChild, files: list[WantedFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[WantedFile] = []

    def source() -> Iterator[WantedFile]:
        for file in files:
            taken.append(file)
            yield file

    monkeypatch.setattr("app.knowledge.reading_child.AHEAD_FILES", 4)
    for number, _ in enumerate(child.read_all(source())):
        assert len(taken) <= number + 4
    monkeypatch.setattr("app.knowledge.reading_child.AHEAD_BYTES", 1)
    taken.clear()
    for number, _ in enumerate(child.read_all(source())):
        assert len(taken) == number + 1


def test_a_process_that_is_ended_from_outside_costs_no_file(
    child: ReadingChild, files: list[WantedFile]
) -> None:
    results = []
    for result in child.read_all(files):
        results.append(result)
        if len(results) in (3, 20) and child.pid is not None:
            os.kill(child.pid, signal.SIGKILL)
    assert results == [read(file.path) for file in files]


def test_a_file_that_ends_the_process_each_time_costs_itself_only(
    child: ReadingChild, files: list[WantedFile], endless: Path
) -> None:
    """It is ended for it: whoever waits for this file sees the process at it."""
    results: list[Document | Unreadable] = []

    def end(done: int, total: int) -> None:
        if len(results) == 5 and child.pid is not None:
            os.kill(child.pid, signal.SIGKILL)

    for result in child.read_all(files[:10], progress=end):
        results.append(result)
    assert results[5] == Unreadable("skipped: it ended the process that reads it")
    assert all(isinstance(results[place], Document) for place in range(10) if place != 5)


def test_a_file_that_never_ends_costs_its_time_and_no_other_file(
    files: list[WantedFile], endless: Path
) -> None:
    child = ReadingChild(seconds=1)
    try:
        results = list(child.read_all(files[:10]))
    finally:
        child.close()
    assert isinstance(results[5], Unreadable)
    assert "stopped after" in results[5].state
    assert all(isinstance(results[place], Document) for place in range(10) if place != 5)


@pytest.mark.skipif(os.name == "nt", reason="no process can be stopped there")
def test_a_process_that_takes_no_more_requests_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["d" * 250] * 14)  # long paths fill a pipe
    folder.mkdir(parents=True)
    files = [WantedFile(folder / f"{number}.txt", folder) for number in range(20)]
    for file in files:
        file.path.write_text("text")
    child = ReadingChild(seconds=1)
    try:
        child.read(files[0].path)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)
        results = list(child.read_all(files))
    finally:
        child.close()
    assert isinstance(results[0], Unreadable)
    assert all(isinstance(result, Document) for result in results[1:])


def test_who_stops_or_leaves_can_read_again(child: ReadingChild, files: list[WantedFile]) -> None:
    answers = child.read_all(files)
    next(answers)
    answers.close()
    stopping = iter([None, None, False])
    with pytest.raises(ReadingStopped):
        list(child.read_all(files, progress=lambda *pages: next(stopping)))
    assert list(child.read_all(files)) == [read(file.path) for file in files]


def test_a_process_that_died_at_rest_costs_no_file(
    child: ReadingChild, files: list[WantedFile]
) -> None:
    list(child.read_all(files[:2]))
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert list(child.read_all(files[2:5])) == [read(file.path) for file in files[2:5]]
