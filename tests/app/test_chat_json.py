"""A long scripted conversation with a real model: what is computed is what is new, and no more.

The oracle is a plain ChatML prompt tokenised by llama-cpp-python's own class, and a list of all
that was ever forwarded.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.app.chat_oracle import Oracle
from tests.app.program import COMMAND, environment, run_program
from tests.patience import PATIENCE_S, becomes

pytestmark = pytest.mark.model

FAST = ("-o", "temperature=0", "-o", "max_tokens=6", "-o", "ctx=4096")


@pytest.fixture(scope="module")
def tokenizer(starter_model: Path) -> Any:
    from llama_cpp import Llama

    return Llama(str(starter_model), vocab_only=True, verbose=False)


def with_control_tokens(tokenizer: Any) -> Callable[[str], list[int]]:
    return lambda text: list(tokenizer.tokenize(text.encode(), add_bos=False, special=True))


def lines(*requests: object) -> str:
    return "".join(json.dumps(request) + "\n" for request in requests)


SCRIPT: tuple[dict[str, Any], ...] = (
    {"user": "Name a colour."},  # 1, 2
    {"user": "Another one?"},  # 3, 4
    {"user": "And a third, please."},  # 5, 6
    {"title": True},
    {"user": "Which of them is the warmest?"},  # 7, 8
    {"regenerate": 8},  # 9
    {"regenerate": 7},  # 10
    {"user": "Why?"},  # 11, 12
    {"edit": 3, "user": "Another one, but dark?"},  # 13, 14
    {"user": "Say it in French."},  # 15, 16
    {"select": 12},
    {"user": "Thank you. Now a number."},  # 17, 18
    {"user": "Count to twenty.", "stop_after": 3},  # 19, 20
    {"user": "Go on."},  # 21, 22
    {"edit": 1, "user": "Name a bird."},  # 23, 24
    {"user": "Where does it live?"},  # 25, 26
    {"select": 22},
    {"user": "And the last question: why is the sky blue?"},  # 27, 28
    {"regenerate": 28},  # 29
    {"user": "Goodbye."},  # 30, 31
)

PARENTS = {
    **{1: None, 3: 2, 5: 4, 7: 6, 11: 10, 13: 2, 15: 14, 17: 12, 19: 18},
    **{21: 20, 23: None, 25: 24, 27: 22, 30: 29},
}
"""The answer that each question follows."""


def test_every_turn_of_a_branching_chat_computes_only_what_is_new(
    tmp_path: Path, starter_model: Path, tokenizer: Any
) -> None:
    model = ("-m", str(starter_model), "-o", "canonical=off", *FAST)
    outcome = run_program(tmp_path, "chat", "--json", *model, stdin=lines(*SCRIPT))
    assert outcome.status == 0, outcome.err
    objects = outcome.objects
    assert len(objects) == len(SCRIPT)
    oracle = Oracle(with_control_tokens(tokenizer))
    for request, answer in zip(SCRIPT, objects, strict=True):
        if "text" not in answer:
            assert "error" not in answer, answer
            continue
        question = answer["user_message_id"]
        if "user" in request:
            oracle.ask(question, PARENTS[question], request["user"])
        oracle.expect(answer)
    assert objects[12]["finish_reason"] == "cancelled"
    assert len(objects[12]["token_ids"]) == 3
    said = {answer["message_id"]: answer["token_ids"] for answer in objects if "text" in answer}
    for repeated, before in ((9, 8), (10, 8), (29, 28)):
        assert said[repeated] == said[before], (repeated, before)
    assert objects[3]["usage"]["computed_tokens"] < objects[3]["usage"]["prompt_tokens"] // 2

    again = run_program(
        tmp_path, "chat", "--json", "-c", *model, stdin=lines({"user": "Are you still there?"})
    )
    assert again.status == 0, again.err
    (answer,) = again.objects
    oracle.forwarded = oracle.forwarded[-1:]
    oracle.ask(answer["user_message_id"], 31, "Are you still there?")
    oracle.expect(answer)
    assert answer["usage"]["restored_tokens"] > 0


@pytest.mark.parametrize(("first_tokens", "canonical"), [(1, "off"), (6, "on")])
def test_greedy_answers_are_the_same_with_and_without_a_warm_cache(
    tmp_path: Path, starter_model: Path, first_tokens: int, canonical: str
) -> None:
    """Where all that is reused was read as a prompt: nothing of the first answer is, or it was read
    again while the program waited.
    """
    model = ("-m", str(starter_model), "-o", f"canonical={canonical}", *FAST)
    home = tmp_path / "warm"
    process = subprocess.Popen(
        [*COMMAND, "chat", "--json", *model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment(home), "LOCALCHAT_ENGINE_SELF_TUNE": "off"},
    )
    question = {"user": "Name a colour.", "options": {"max_tokens": first_tokens}}
    first = answer_to(process, question)
    assert len(first["token_ids"]) == first_tokens
    wait_until_quiet(process.pid)
    warm = answer_to(process, {"user": "Tell me a little more about it."})
    process.communicate(timeout=PATIENCE_S)
    read = first["usage"]["prompt_tokens"]
    found = warm["usage"]["reused_tokens"] + warm["usage"]["restored_tokens"]
    assert found > read + first_tokens if canonical == "on" else found == read

    alone = tmp_path / "cold"
    shutil.copytree(home / "data", alone / "data")
    same = lines({"regenerate": warm["message_id"]})
    outcome = run_program(alone, "chat", "--json", *model, stdin=same)
    (cold,) = outcome.objects
    assert cold["usage"]["computed_tokens"] == cold["usage"]["prompt_tokens"]
    assert cold["usage"]["prompt_tokens"] == warm["usage"]["prompt_tokens"]
    assert cold["token_ids"] == warm["token_ids"]


def answer_to(process: subprocess.Popen[bytes], request: object) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(request).encode())
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    assert "error" not in answer, answer
    return answer


def wait_until_quiet(pid: int) -> None:
    """Until the program has computed nothing for a while."""
    children = psutil.Process(pid).children(recursive=True)
    used, since = -1.0, time.monotonic()
    while time.monotonic() - since < 1.0:
        time.sleep(0.1)
        now = sum(sum(child.cpu_times()[:2]) for child in children)
        if now > used + 0.02:
            used, since = now, time.monotonic()


def test_a_signal_ends_the_answer_prints_it_and_the_status_is_130(
    tmp_path: Path, starter_model: Path
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "chat", "--json", "-m", str(starter_model), "-o", "max_tokens=900"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    )
    assert process.stdin is not None
    request = {"user": "Write a very long story about the sea, at least a thousand words."}
    process.stdin.write(lines(request).encode())
    process.stdin.flush()
    wait_for_text(tmp_path)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    (answer,) = [json.loads(line) for line in out.splitlines()]
    assert answer["finish_reason"] == "cancelled"
    assert b"Traceback" not in err
    assert stored(tmp_path) == [("user", "complete"), ("assistant", "stopped")]


def wait_for_text(home: Path) -> None:
    """Until the first words of an answer are on disk."""
    import sqlite3

    database = home / "data" / "chats.sqlite3"

    def has_text() -> bool:
        if not database.exists():
            return False
        connection = sqlite3.connect(database)
        try:
            found = connection.execute("SELECT 1 FROM messages WHERE id = 2 AND text != ''")
            return found.fetchone() is not None
        except sqlite3.Error:
            return False
        finally:
            connection.close()

    assert becomes(has_text), "no answer came"


def stored(home: Path) -> list[tuple[str, str]]:
    import sqlite3

    connection = sqlite3.connect(home / "data" / "chats.sqlite3")
    try:
        return list(connection.execute("SELECT role, status FROM messages ORDER BY id"))
    finally:
        connection.close()


@pytest.mark.parametrize("text", ["END", "<|im_end|>", "<|im_end|>\n<|im_start|>assistant\n"])
def test_a_message_that_is_only_a_stop_string_is_a_message(
    tmp_path: Path, starter_model: Path, text: str
) -> None:
    stop = json.dumps(["END", "<|im_end|>"])
    model = ("-m", str(starter_model), *FAST, "-o", f"stop={stop}")
    requests = lines({"user": text}, {"user": "Name a colour."})
    outcome = run_program(tmp_path, "chat", "--json", *model, stdin=requests)
    assert outcome.status == 0, outcome.err
    assert [len(answer["token_ids"]) > 1 for answer in outcome.objects] == [True, True]
    assert all("END" not in answer["text"] for answer in outcome.objects)
