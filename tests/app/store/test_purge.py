"""What is deleted for good is in no file of the data folder any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.paths import Paths
from app.store.conversation import AnswerInfo
from app.store.draft import KeptDraft
from app.store.history import History
from app.store.rows import pack_ids
from tests.app.store.conftest import OpenHistory

IDS = tuple(range(70_001, 70_400))
TRACES = {
    "question": b"zyxquestion",
    "answer": b"zyxanswer",
    "reasoning": b"zyxreasoning",
    "draft": b"zyxdraft",
    "system prompt": b"zyxsystem",
    "title": b"zyxtitle",
    "info": b"zyxmodel",
    "token ids": pack_ids(IDS)[:64],
    "indexed word": b"zyxquest",
    "rest of an indexed word": b"yxquestio",
}


def fill(history: History, marked: bool) -> int:
    mark = "zyx" if marked else "abc"
    chat = history.new_chat(system=f"{mark}system", title=f"{mark}title")
    for number in range(5):
        question = history.add_user(chat.id, None, f"{mark}question number{number} " * 200)
        answer = history.begin_answer(chat.id, question.id, AnswerInfo(model=f"{mark}model"))
        history.journal(answer.id, f"{mark}answer", f"{mark}reasoning", IDS if marked else ())
        history.finish_answer(
            answer.id, "complete", f"{mark}answer " * 900, f"{mark}reasoning", IDS if marked else ()
        )
    history.save_draft(chat.id, KeptDraft(f"{mark}draft"))
    return chat.id


def traces(folder: Path) -> list[str]:
    found = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        found += [f"{name} in {file.name}" for name, mark in TRACES.items() if mark in content]
    return found


@pytest.fixture
def filled(history: History) -> tuple[int, int]:
    return fill(history, marked=False), fill(history, marked=True)


def test_a_deleted_chat_is_still_there_so_that_it_can_come_back(
    history: History, filled: tuple[int, int], paths: Paths
) -> None:
    history.delete_chat(filled[1])
    assert traces(paths.data)


def test_a_purged_chat_leaves_no_trace(
    history: History, filled: tuple[int, int], paths: Paths
) -> None:
    history.delete_chat(filled[1])
    history.purge(filled[1])
    assert traces(paths.data) == []
    assert [one.id for one in history.chats()] == [filled[0]]
    assert len(history.path(filled[0])) == 2
    assert history.draft(filled[0]).text == "abcdraft"
    history.close()
    assert traces(paths.data) == []


def test_a_deleted_subtree_leaves_no_trace(
    history: History, filled: tuple[int, int], paths: Paths
) -> None:
    chat = history.new_chat(title="x")
    question = history.add_user(chat.id, None, "kept")
    history.purge(filled[1])
    history.delete_subtree(history.add_user(chat.id, question.id, "zyxquestion here").id)
    assert traces(paths.data) == []
    assert [message.text for message in history.path(chat.id)] == ["kept"]


def test_an_overwritten_draft_leaves_no_trace(history: History, paths: Paths) -> None:
    chat = history.new_chat()
    history.save_draft(chat.id, KeptDraft("zyxdraft " * 1000))
    history.save_draft(chat.id, KeptDraft())
    history.close()
    assert traces(paths.data) == []


def test_a_purge_that_never_came_is_listed_at_the_next_start(
    open_history: OpenHistory, paths: Paths
) -> None:
    first = open_history()
    chat = fill(first, marked=True)
    first.delete_chat(chat)
    second = open_history()
    assert [one.id for one in second.pending_deletes()] == [chat]
    first.close()
    second.purge(chat)
    second.close()
    assert traces(paths.data) == []


def test_a_purge_while_another_process_reads_is_completed_at_the_latest_when_all_close(
    open_history: OpenHistory, paths: Paths
) -> None:
    first, second = open_history(), open_history()
    chat = fill(first, marked=True)
    with second._database.read() as connection:
        connection.execute("SELECT count(*) FROM chats").fetchone()
        first._database._connection.execute("PRAGMA busy_timeout = 50")
        first.purge(chat)
    first.close()
    second.close()
    assert traces(paths.data) == []
