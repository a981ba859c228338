"""Several processes on one data folder, and processes that are killed at any moment."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.paths import Paths
from app.store import database
from app.store.locks import folder_lock
from tests.app.store.conftest import OpenHistory

WRITER = """
import sys, time
from pathlib import Path
from app.store.history import History
from app.store.locks import conversation_lock
database, locks, count, chunks, pause = sys.argv[1:]
history = History.open(Path(database), Path(locks))
chat = history.new_chat()
parent = None
print("chat", chat.id, flush=True)
with conversation_lock(Path(locks), chat.id):
    for turn in range(int(count)):
        question = history.add_user(chat.id, parent, f"question {turn}")
        print("question", question.id, flush=True)
        answer = history.begin_answer(chat.id, question.id)
        text = ""
        for chunk in range(int(chunks)):
            text += f"chunk{chunk} "
            history.journal(answer.id, text, "", tuple(range(chunk + 1)))
            print("journal", answer.id, chunk + 1, flush=True)
            time.sleep(float(pause))
        history.finish_answer(answer.id, "complete", text, "", tuple(range(int(chunks))))
        print("finished", answer.id, flush=True)
        parent = answer.id
history.close()
print("closed", flush=True)
"""


def start(paths: Paths, turns: int, chunks: int, pause: float) -> subprocess.Popen[str]:
    arguments = [str(paths.database), str(paths.locks), str(turns), str(chunks), str(pause)]
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check(database: Path) -> None:
    connection = sqlite3.connect(database)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def test_two_processes_write_different_conversations(
    open_history: OpenHistory, paths: Paths
) -> None:
    # Without pauses the disk of a slow machine would never be free for the others.
    writers = [start(paths, turns=6, chunks=6, pause=0.01) for _ in range(3)]
    for writer in writers:
        output, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
        assert output.endswith("closed\n")
    history = open_history()
    assert history.notices == []
    chats = history.chats()
    assert len(chats) == 3
    for chat in chats:
        path = history.path(chat.id)
        assert [message.text for message in path[::2]] == [f"question {turn}" for turn in range(6)]
        assert {message.status for message in path} == {"complete"}
    history.close()
    check(paths.database)


def test_a_writer_killed_at_any_moment_loses_at_most_its_last_journal(
    open_history: OpenHistory, paths: Paths
) -> None:
    moments = random.Random(7)
    expected: dict[int, list[str]] = {}
    journals: dict[int, int] = {}
    finished: set[int] = set()
    for _ in range(12):
        with start(paths, turns=1000, chunks=8, pause=0.001) as writer:
            assert writer.stdout is not None
            for _ in range(moments.randrange(1, 40)):
                read(writer.stdout.readline(), expected, journals, finished)
            time.sleep(moments.random() * 0.01)
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout:
                read(line, expected, journals, finished)
    history = open_history()
    assert not any("damaged" in file.name for file in paths.data.iterdir())
    for chat, words in expected.items():
        for word in words:
            message = history.message(int(word))
            assert (message.chat_id, message.role, message.status) == (chat, "user", "complete")
    for answer, chunks in journals.items():
        message = history.message(answer)
        assert message.status == ("complete" if answer in finished else message.status)
        assert message.status in ("complete", "cut")
        assert message.text.startswith("".join(f"chunk{one} " for one in range(chunks)))
        assert message.ids[:chunks] == tuple(range(chunks))
    for chat in expected:
        path = history.path(chat)
        history.add_user(chat, path[-1].id if path else None, "it goes on")
    history.close()
    check(paths.database)


def read(
    line: str, expected: dict[int, list[str]], journals: dict[int, int], finished: set[int]
) -> None:
    """What a writer says it has saved; a line cut by its death says nothing."""
    if not line.endswith("\n"):
        return
    kind, *numbers = line.split()
    if kind == "chat":
        expected[int(numbers[0])] = []
    elif kind == "question":
        expected[max(expected)].append(numbers[0])
    elif kind == "journal":
        journals[int(numbers[0])] = int(numbers[1])
    elif kind == "finished":
        finished.add(int(numbers[0]))


def test_a_process_killed_while_it_opens_leaves_a_database_that_opens(
    open_history: OpenHistory, paths: Paths
) -> None:
    moments = random.Random(3)
    for _ in range(8):
        with start(paths, turns=1, chunks=1, pause=0) as writer:
            time.sleep(0.12 + moments.random() * 0.1)
            writer.send_signal(signal.SIGKILL)
    history = open_history()
    history.new_chat()
    history.close()
    assert not any("damaged" in file.name for file in paths.data.iterdir())
    check(paths.database)


def test_a_long_log_is_emptied_when_an_answer_ends(
    open_history: OpenHistory, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LONG_LOG_BYTES", 100_000)
    history = open_history()
    chat = history.new_chat().id
    answer = history.begin_answer(chat, history.add_user(chat, None, "q").id)
    for number in range(50):
        history.journal(answer.id, "word " * number * 20, "", ())
    log = paths.data / "chats.sqlite3-wal"
    assert log.stat().st_size > 100_000
    with folder_lock(paths.locks):
        history.finish_answer(answer.id, "complete", "word " * 1000)
    assert log.stat().st_size > 100_000
    history.finish_answer(answer.id, "complete", "done")
    assert log.stat().st_size == 0
    assert history.message(answer.id).text == "done"


def test_the_log_is_emptied_at_close_also_after_long_streams(
    open_history: OpenHistory, paths: Paths
) -> None:
    history = open_history()
    chat = history.new_chat().id
    answer = history.begin_answer(chat, history.add_user(chat, None, "q").id)
    for number in range(200):
        history.journal(answer.id, "word " * number * 20, "", tuple(range(number)))
    log = paths.data / "chats.sqlite3-wal"
    assert log.stat().st_size > 1_000_000
    history.finish_answer(answer.id, "complete", "word " * 4000)
    history.close()
    assert not log.exists() or log.stat().st_size == 0
