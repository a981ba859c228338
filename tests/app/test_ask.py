"""`localchat ask` with a real model, from outside: what goes in, what comes out, what stays."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from app.store.locks import conversation_lock
from tests.app.program import COMMAND, Outcome, environment, run_program
from tests.app.test_chat_json import stored, wait_for_text
from tests.patience import PATIENCE_S, becomes, have_ended

pytestmark = pytest.mark.model


class Asker:
    """`localchat ask` with the starter, few tokens and no chance."""

    def __init__(self, home: Path, model: Path) -> None:
        self.home = home
        self._options = ("-m", str(model), "-o", "temperature=0", "-o", "max_tokens=8")

    def __call__(self, *words: str, stdin: str | bytes = b"") -> Outcome:
        return run_program(self.home, "ask", *self._options, *words, stdin=stdin)


@pytest.fixture
def ask(tmp_path: Path, starter_model: Path) -> Asker:
    return Asker(tmp_path, starter_model)


def first_message(home: Path) -> str:
    shown = run_program(home, "chats", "show", "1", "--json")
    return str(json.loads(shown.out)["messages"][0]["text"])


def test_an_answer_from_a_pipe_is_text_on_stdout_and_nothing_else(ask: Asker) -> None:
    plain = ask("Say hello.", stdin="Some text.\n")
    assert plain.status == 0, plain.err
    assert first_message(ask.home) == "Some text.\n\nSay hello."
    as_json = ask("--json", "Say hello.", stdin="Some text.\n")
    (answer,) = as_json.objects
    assert plain.out == answer["text"] + "\n"
    assert answer["seed"] >= 0
    assert "\x1b" not in plain.out + plain.err


def test_files_are_whole_labelled_and_before_the_question(ask: Asker, tmp_path: Path) -> None:
    note = tmp_path / "nöte s.txt"
    note.write_text("<|im_end|> inside\n", encoding="utf-8")
    assert ask("-f", str(note), "Summarise.").status == 0
    assert first_message(ask.home) == 'File "nöte s.txt":\n<|im_end|> inside\n\nSummarise.'


def test_going_on_in_a_new_process_reads_only_what_is_new(ask: Asker) -> None:
    (first,) = ask("--json", "Name a colour and tell me a little about it.").objects
    (second,) = ask("--json", "-c", "Another?").objects
    usage = second["usage"]
    assert second["chat_id"] == first["chat_id"]
    assert usage["restored_tokens"] >= first["usage"]["prompt_tokens"]
    assert usage["computed_tokens"] < 30
    assert second["timings"]["load_ms"] > 0


def test_nothing_of_an_unsaved_question_stays(ask: Asker) -> None:
    outcome = ask("--no-save", "--json", "My secret is xylophone.")
    assert outcome.status == 0, outcome.err
    assert json.loads(run_program(ask.home, "chats", "--json").out) == []
    files = [path for path in ask.home.rglob("*") if path.is_file()]
    assert not any(b"xylophone" in path.read_bytes() for path in files)
    assert not list(ask.home.rglob("*.state"))


def test_a_question_longer_than_the_window_is_status_5_and_kept(ask: Asker) -> None:
    outcome = ask("-o", "ctx=64", "word " * 200)
    assert outcome.status == 5, outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert stored(ask.home) == [("user", "complete"), ("assistant", "error")]
    assert ask("--chat", "1", "-o", "ctx=2048", "Short now.").status == 0


def test_a_chat_in_other_hands_is_refused_with_their_number(ask: Asker) -> None:
    ask("One.")
    with conversation_lock(ask.home / "data" / "locks", 1):
        outcome = ask("-c", "Two.")
    assert outcome.status == 1
    assert str(os.getpid()) in outcome.err
    assert len(stored(ask.home)) == 2
    assert ask("-c", "Two.").status == 0


def test_a_reader_that_goes_away_ends_the_program_quietly(ask: Asker, starter_model: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "ask", "-m", str(starter_model), "Write a long story about the sea."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(ask.home),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) in (0, 141)
    assert b"Traceback" not in errors
    assert stored(ask.home)[1][1] in ("cut", "stopped", "complete")


def test_a_limit_and_a_stop_text_end_an_answer_as_they_say(ask: Asker) -> None:
    (limited,) = ask("--json", "-o", "max_tokens=3", "Count to ten.").objects
    assert (limited["finish_reason"], len(limited["token_ids"])) == ("length", 3)
    (whole,) = ask("--json", "Count to ten.").objects
    stop = whole["text"][4:7]
    (stopped,) = ask("--json", "-o", f"stop={stop}", "Count to ten.").objects
    assert stopped["finish_reason"] == "stop"
    assert whole["text"].startswith(stopped["text"])
    assert stop not in stopped["text"]


def start_long_answer(ask: Asker, model: Path) -> subprocess.Popen[bytes]:
    """A process in the middle of an answer whose first words are on disk."""
    process = subprocess.Popen(
        [*COMMAND, "ask", "-m", str(model), "-o", "max_tokens=900", "Write a long story."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(ask.home),
    )
    wait_for_text(ask.home)
    return process


def test_a_killed_program_keeps_the_question_and_what_had_come(
    ask: Asker, starter_model: Path
) -> None:
    process = start_long_answer(ask, starter_model)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    shown = json.loads(run_program(ask.home, "chats", "show", "1", "--json").out)
    question, answer = shown["messages"]
    assert question["text"] == "Write a long story."
    assert answer["status"] == "cut"
    assert answer["text"] != ""
    assert ask("-c", "Go on.").status == 0


def test_a_killed_engine_costs_one_answer_and_is_named(ask: Asker, starter_model: Path) -> None:
    process = start_long_answer(ask, starter_model)
    for child in psutil.Process(process.pid).children():
        child.kill()
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert b"localchat: " in errors
    assert b"Traceback (most recent call last)" not in errors
    assert stored(ask.home) == [("user", "complete"), ("assistant", "cut")]
    assert ask("-c", "Go on.").status == 0


def test_a_context_that_fits_no_memory_is_status_4_with_the_numbers(
    tmp_path: Path, starter_model: Path
) -> None:
    words = ("-m", str(starter_model), "-o", "ctx=16000000", "Hi.")
    outcome = run_program(tmp_path, "ask", *words)
    assert outcome.status == 4, outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert "16,000,000 tokens" in outcome.err
    # 30 layers, 3 heads of 64, keys and values, 2 bytes.
    assert f"{16_000_000 * 30 * 3 * 64 * 2 * 2 / 1e9:.0f} GB of KV" in outcome.err
    assert re.search(r"needs about \d+ GB .* are free", outcome.err)
    assert "smaller ctx" in outcome.err
    as_json = run_program(tmp_path, "ask", "--json", *words)
    assert as_json.status == 4
    assert as_json.objects[0]["error"]["code"] == "memory"
    assert not stored_questions(tmp_path)


def stored_questions(home: Path) -> bool:
    try:
        return (home / "data" / "chats.sqlite3").exists() and bool(stored(home))
    except sqlite3.Error:  # it is being made
        return False


def family_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def interrupt_and_end(process: subprocess.Popen[bytes]) -> bytes:
    """What stood on standard output after SIGINT; the status is 130 and nothing is left."""
    family = family_of(process)
    assert family
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    assert have_ended(family)
    return out


def test_an_interrupt_while_a_long_prompt_is_read_is_status_130(
    ask: Asker, starter_model: Path, tmp_path: Path
) -> None:
    note = tmp_path / "long.txt"
    note.write_text("".join(f"Line {number} of a long text.\n" for number in range(400)))
    process = subprocess.Popen(
        [*COMMAND, "ask", "-m", str(starter_model), "-f", str(note), "Summarise."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(ask.home),
    )
    assert becomes(lambda: stored_questions(ask.home))
    time.sleep(0.1)  # reading takes seconds, also on a fast machine
    assert interrupt_and_end(process) == b""
    assert stored(ask.home) == [("user", "complete"), ("assistant", "stopped")]
    assert ask("Say hello.").status == 0


def stopped_while_loading(ask: Asker, model: Path, after_s: float) -> subprocess.Popen[bytes]:
    """A process that stands still so long after it started its engine, or sooner where that is too
    late.
    """
    while True:
        process = subprocess.Popen(
            [*COMMAND, "ask", "-m", str(model), "Write a long story."],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(ask.home),
        )
        assert becomes(lambda process=process: bool(family_of(process)))
        time.sleep(after_s)
        process.send_signal(signal.SIGSTOP)
        state = psutil.Process(process.pid)
        assert becomes(lambda state=state: state.status() == psutil.STATUS_STOPPED)
        if not stored_questions(ask.home):
            return process
        process.kill()
        process.communicate()
        ask.home, after_s = ask.home / "again", after_s / 2


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2])
def test_an_interrupt_while_the_model_is_loaded_is_status_130(
    ask: Asker, starter_model: Path, after_s: float
) -> None:
    process = stopped_while_loading(ask, starter_model, after_s)
    assert interrupt_and_end(process) == b""
    assert not stored_questions(ask.home)
    assert ask("Say hello.").status == 0
