"""Fifty processes killed at random moments, with a real model: nothing that was sent is lost."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.app.program import COMMAND, environment, run_program
from tests.patience import have_ended

pytestmark = [pytest.mark.model, pytest.mark.timeout(1800)]

KILLS = 50
OPTIONS = ("-o", "temperature=0", "-o", "max_tokens=60")


def start(home: Path, *words: str, stdin: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(home),
    )


def stored(home: Path) -> list[tuple[str, str]]:
    """Role and text of all messages in a database that is whole; none if there is no table yet."""
    path = home / "data" / "chats.sqlite3"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'messages'").fetchall():
            return []
        return database.execute("SELECT role, text FROM messages ORDER BY id").fetchall()


def children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def test_a_program_killed_at_any_moment_keeps_what_was_sent_and_leaves_no_process(
    tmp_path: Path, starter_model: Path
) -> None:
    chance = random.Random(5)
    model = ("-m", str(starter_model), *OPTIONS)
    begun = time.monotonic()
    assert run_program(tmp_path, "ask", *model, "Hello.").status == 0
    span = 1.5 * (time.monotonic() - begun)
    seen = ["Hello."]
    for number in range(KILLS):
        question = f"Question {number}: tell me about the sea."
        answer = printed_until_killed(
            start(tmp_path, "ask", "-c", *model, question, stdin=subprocess.DEVNULL),
            chance.uniform(0.0, span),
        )
        messages = stored(tmp_path)
        questions = [text for role, text in messages if role == "user"]
        assert questions[: len(seen)] == seen
        assert questions[len(seen) :] in ([question], [])
        if answer:
            assert questions[-1] == question
            role, text = messages[-1]
            assert role == "assistant"
            assert answer.startswith(text.rstrip()) or text.startswith(answer)
        seen = questions
    assert len(seen) > KILLS // 3, "most kills came before anything was sent"
    last = run_program(tmp_path, "ask", "-c", "--json", *model, "And the last one?")
    assert last.status == 0, last.err
    assert [text for role, text in stored(tmp_path) if role == "user"] == [
        *seen,
        "And the last one?",
    ]


def printed_until_killed(program: subprocess.Popen[bytes], seconds: float) -> str:
    """What it wrote by then; its children end soon after it."""
    assert program.stdout is not None
    printed: list[bytes] = []
    reader = threading.Thread(target=lambda out=program.stdout: printed.append(out.read()))
    reader.start()
    time.sleep(seconds)
    family = children(program.pid)
    program.kill()
    assert have_ended(family)
    reader.join()
    program.stdout.close()
    program.wait()
    return b"".join(printed).decode(errors="ignore").rstrip()


def test_an_engine_killed_at_any_moment_costs_one_answer(
    tmp_path: Path, starter_model: Path
) -> None:
    chance = random.Random(6)
    program = start(
        tmp_path, "chat", "--json", "-m", str(starter_model), *OPTIONS, stdin=subprocess.PIPE
    )
    assert program.stdin is not None
    assert program.stdout is not None
    sent = []
    failed = 0
    for number in range(KILLS + 1):
        sent.append(f"Question {number}: and then?")
        program.stdin.write(json.dumps({"user": sent[-1]}).encode() + b"\n")
        program.stdin.flush()
        timer = threading.Timer(chance.uniform(0.0, 0.9), kill_engine, (program.pid,))
        if number:  # before the first answer the program only waits for the model
            timer.start()
        answer = json.loads(program.stdout.readline())
        if number:
            timer.join()
        assert ("error" in answer) != ("text" in answer)
        failed += "error" in answer
    program.stdin.write(b'{"user": "The end?"}\n')
    program.stdin.close()
    assert "text" in json.loads(program.stdout.readline())
    assert program.wait(60) == 0
    program.stdout.close()
    assert failed > KILLS // 5, "most kills came between answers"
    messages = stored(tmp_path)
    assert [text for role, text in messages if role == "user"] == [*sent, "The end?"]
    assert len(messages) == 2 * len(sent) + 2


def kill_engine(program: int) -> None:
    for process in children(program):
        if "engine.worker" in process.cmdline():
            process.kill()
