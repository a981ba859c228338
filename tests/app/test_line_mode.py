"""Laws of line mode: one message for what belongs together, ctrl+c stops, ctrl+d leaves."""

from __future__ import annotations

import codecs
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.knowledge.bases import KnowledgeBases
from app.paths import Paths
from app.store.history import History
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]


class Terminal:
    """A person at a pseudo-terminal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.app.line_mode_program", str(folder)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
        )
        os.close(theirs)
        # A read may end inside a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.shown = ""
        self._seen = 0

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> None:
        """Until `text` is shown after what was waited for before."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.shown[self._seen :]:
            assert time.monotonic() < end, self.shown
            self._read()
        self._seen = self.shown.index(text, self._seen) + len(text)

    def _read(self) -> None:
        if select.select([self._ours], [], [], 0.1)[0]:
            self.shown += self._decoder.decode(os.read(self._ours, 4096))

    def interrupt(self) -> None:
        os.kill(self.process.pid, signal.SIGINT)

    def interrupt_until(self, text: str) -> None:
        """As a person presses again: a signal between prompt and reading waits for the next key."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.shown[self._seen :]:
            assert time.monotonic() < end, self.shown
            self.interrupt()
            again = time.monotonic() + 1
            while text not in self.shown[self._seen :] and time.monotonic() < again:
                self._read()
        self._seen = self.shown.index(text, self._seen) + len(text)
        self.type("\r")  # a signal that came late is behind us with the next prompt
        self.wait_for("> ")

    def leave(self) -> int:
        """Only at a prompt: outside of it the system takes the key for an end of its own."""
        self.type("\x04")
        return self.ended()

    def ended(self) -> int:
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < end:
            try:
                self._read()
            except OSError:
                break
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)

    def questions(self) -> list[str]:
        return questions(self.folder)


def questions(folder: Path) -> list[str]:
    paths = Paths.under(folder)
    history = History.open(paths.database, paths.locks)
    try:
        return [
            message.text
            for chat in reversed(history.chats())
            for message in history.path(chat.id)
            if message.role == "user"
        ]
    finally:
        history.close()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    made.wait_for("> ")
    yield made
    made.close()


def test_a_line_is_answered_and_ctrl_d_leaves(terminal: Terminal) -> None:
    terminal.type("hello\r")
    terminal.wait_for("<hello>")
    terminal.wait_for("> ")
    assert terminal.leave() == 0
    assert terminal.questions() == ["hello"]


def test_a_paste_is_one_message(terminal: Terminal) -> None:
    terminal.type("\x1b[200~one\ntwo\n\nthree\x1b[201~\r")
    terminal.wait_for("three>")
    terminal.wait_for("> ")
    assert terminal.leave() == 0
    assert terminal.questions() == ["one\ntwo\n\nthree"]


def test_a_backslash_goes_on_with_the_next_line(terminal: Terminal) -> None:
    terminal.type("one \\\r")
    terminal.wait_for("… ")
    terminal.type("two\r")
    terminal.wait_for("two>")
    terminal.wait_for("> ")
    assert terminal.leave() == 0
    assert terminal.questions() == ["one \ntwo"]


def test_ctrl_c_stops_the_answer_and_then_only_hints(terminal: Terminal) -> None:
    terminal.type("go slowly please\r")
    terminal.wait_for("<g")
    terminal.interrupt()
    terminal.wait_for("stopped")
    terminal.wait_for("> ")
    terminal.interrupt_until("ctrl+d leaves")
    terminal.type("next\r")
    terminal.wait_for("<next>")
    terminal.wait_for("> ")
    assert terminal.leave() == 0
    assert terminal.questions() == ["go slowly please", "next"]


def test_commands_are_no_messages_and_unknown_ones_name_the_nearest(terminal: Terminal) -> None:
    terminal.type("/hlep\r")
    terminal.wait_for("The nearest is /help")
    terminal.type("/system Be kind.\r")
    terminal.wait_for("new chat")
    terminal.type("//etc is a folder\r")
    terminal.wait_for("</etc is a folder>")
    terminal.type("/regen\r")
    terminal.wait_for("</etc is a folder>")
    terminal.wait_for("> ")
    terminal.type("/quit\r")
    assert terminal.ended() == 0
    assert terminal.questions() == ["/etc is a folder"]


def test_a_knowledge_base_answers_from_where_it_is_named(terminal: Terminal) -> None:
    docs = terminal.folder / "docs"
    docs.mkdir()
    (docs / "bees.md").write_text("Bees live in hives. A hive has one queen.")
    with KnowledgeBases(Paths.under(terminal.folder)).create("bees", [docs]) as base:
        base.sync()
    terminal.type("/kb wasps\r")
    terminal.wait_for("There is no knowledge base")
    terminal.wait_for("> ")
    terminal.type("/kb bees\r")
    terminal.wait_for("answers come from bees")
    terminal.wait_for("> ")
    terminal.type("Who painted the ceiling of the chapel in 1512?\r")
    terminal.wait_for("The documents say nothing about this")
    terminal.wait_for("> ")
    terminal.type("/kb\r")
    terminal.wait_for("no knowledge base")
    terminal.wait_for("> ")
    assert terminal.leave() == 0
    assert terminal.questions() == ["Who painted the ceiling of the chapel in 1512?"]


def test_escapes_in_an_answer_never_reach_the_terminal(terminal: Terminal) -> None:
    terminal.type("\x1b[200~a\x1b]0;evil\x07b\x1b[201~\r")
    terminal.wait_for("b>")
    terminal.wait_for("> ")
    assert terminal.leave() == 0
    assert "\x1b]0;evil" not in terminal.shown


def test_piped_lines_are_a_message_each(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.app.line_mode_program", str(tmp_path)],
        input="one\ntwo \\\nthree\n\n/regen\nfour",
        text=True,
        capture_output=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["<one>", "<two ", "three>", "<two ", "three>", "<four>"]
    assert questions(tmp_path) == ["one", "two \nthree", "four"]
