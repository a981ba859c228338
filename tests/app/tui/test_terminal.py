"""Laws of the terminal, on a pseudo-terminal with an independent emulator (pyte)."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyte
import pytest

from app.paths import Paths
from app.store.history import History
from app.terminal import CRASHED
from tests.bench.terminal import Terminal as Program
from tests.patience import PATIENCE_S, have_ended

ROOT = Path(__file__).parents[3]
LAST = b"all is read"


class Terminal:
    """A pseudo-terminal with the program in it."""

    def __init__(self, folder: Path, kind: str = "") -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.slave = slave
        self.settings_before = termios.tcgetattr(slave)
        command = [sys.executable, "-m", "tests.app.tui.scripted_program", str(folder), kind]
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.written = b""
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.master, 65_536)
            except OSError:
                return
            self.written += data
            # pyte knows neither the keyboard protocol's nor the mode query's sequences.
            self._stream.feed(re.sub(rb"\x1b\[[<>?][\d;]*[u]|\x1b\[\?\d+\$p", b"", data))

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, f"the state did not come; the screen:\n{self.text}"
            time.sleep(0.02)

    def child(self) -> psutil.Process:
        return psutil.Process(self.process.pid).children()[0]

    def ended(self) -> int:
        status = self.process.wait(PATIENCE_S)
        self.read_rest()
        return status

    def read_rest(self) -> None:
        """What still is in the pseudo-terminal comes before what is written into it now."""
        with suppress(OSError):
            os.write(self.slave, LAST)
        self.until(lambda: self.written.endswith(LAST) or not self._reader.is_alive())
        self.written = self.written.removesuffix(LAST)

    def assert_restored(self) -> None:
        """Every mode that was switched on is off again; the cursor shows; the line is as it was."""
        last: dict[int, str] = {}
        for numbers, state in re.findall(rb"\x1b\[\?([\d;]+)([hl])", self.written):
            for number in numbers.split(b";"):
                last[int(number)] = state.decode()
        assert last.pop(25) == "h"
        assert last.pop(7) == "h"
        assert {number for number, state in last.items() if state == "h"} == set()
        assert self.written.count(b"\x1b[<u") >= self.written.count(b"\x1b[>")
        assert termios.tcgetattr(self.slave) == self.settings_before

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def begin_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def begin(kind: str = "") -> Terminal:
        terminal = Terminal(tmp_path / "folder", kind)
        opened.append(terminal)
        return terminal

    (tmp_path / "folder").mkdir()
    yield begin
    for terminal in opened:
        terminal.close()


@pytest.fixture
def open_terminal(begin_terminal: Callable[..., Terminal]) -> Callable[..., Terminal]:
    def opened(kind: str = "") -> Terminal:
        terminal = begin_terminal(kind)
        terminal.until(lambda: "Everything stays on this machine." in terminal.text)
        return terminal

    return opened


def test_a_models_text_adds_no_sequence_to_the_terminal(
    open_terminal: Callable[..., Terminal],
) -> None:
    terminal = open_terminal()
    terminal.until(lambda: "8k · fits" in terminal.text)
    terminal.type("Hi")
    terminal.until(lambda: "Hi" in terminal.text)
    terminal.type("\r")
    terminal.until(lambda: "end." in terminal.text)
    assert "[bold]b[/]" in terminal.text
    written = re.sub(rb"\x1b\]22;\w+\x07", b"", terminal.written)  # Textual's pointer shape
    for forbidden in (b"\x1b]", b"\x1b[2J", b"\xc2\x9b", b"\x07"):
        assert forbidden not in written
    terminal.type("\x11")
    assert terminal.ended() == 0
    terminal.assert_restored()


def test_raw_pasted_lines_are_one_draft(open_terminal: Callable[..., Terminal]) -> None:
    terminal = open_terminal()
    terminal.type("".join(f"line {number}\r" for number in range(6)))
    terminal.until(lambda: "line 5" in terminal.text)
    assert "Everything stays on this machine." in terminal.text
    terminal.type("\x11")
    assert terminal.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("whom", ["parent", "child"])
def test_a_signal_ends_cleanly_and_keeps_the_partial_answer(
    open_terminal: Callable[..., Terminal], tmp_path: Path, number: signal.Signals, whom: str
) -> None:
    terminal = open_terminal("slow")
    terminal.until(lambda: "8k · fits" in terminal.text)
    terminal.type("Hi\r")
    terminal.until(lambda: "word3" in terminal.text)
    pid = terminal.process.pid if whom == "parent" else terminal.child().pid
    os.kill(pid, number)
    assert terminal.ended() == 128 + number
    terminal.assert_restored()
    paths = Paths.under(tmp_path / "folder")
    history = History.open(paths.database, paths.locks)
    question, answer = history.path(1)
    assert question.text == "Hi"
    assert answer.text.startswith("word0 word1 ")
    assert answer.status in ("stopped", "cut")
    history.close()


def test_a_killed_front_end_leaves_a_working_terminal(
    open_terminal: Callable[..., Terminal],
) -> None:
    terminal = open_terminal()
    terminal.child().kill()
    assert terminal.ended() == 128 + signal.SIGKILL
    terminal.assert_restored()


def test_a_killed_parent_takes_the_front_end_along_and_leaves_a_working_terminal(
    open_terminal: Callable[..., Terminal],
) -> None:
    terminal = open_terminal()
    child = terminal.child()
    terminal.process.kill()
    terminal.process.wait()
    assert have_ended([child])
    terminal.read_rest()
    terminal.assert_restored()


def test_warnings_of_the_program_go_to_the_log_and_not_to_the_screen(
    open_terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    terminal = open_terminal("warn")
    (tmp_path / "folder" / "now").touch()
    terminal.until(lambda: "It has warned." in terminal.text)
    terminal.type("\x11")
    assert terminal.ended() == 0
    log = Paths.under(tmp_path / "folder").log.read_text()
    for said in ("UserWarning: a warning of Python", "a record of a logger"):
        assert said in log
        assert said.encode() not in terminal.written
    assert b"arning" not in terminal.written


def test_a_defect_ends_with_one_sentence_and_its_traceback_in_the_log_only(
    open_terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    terminal = open_terminal("crash")
    (tmp_path / "folder" / "now").touch()
    assert terminal.ended() == CRASHED
    terminal.assert_restored()
    assert_told_of_a_defect(terminal, Paths.under(tmp_path / "folder").log)


def test_a_defect_while_an_answer_is_written_keeps_what_came(
    open_terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    terminal = open_terminal("slow")
    terminal.until(lambda: "8k · fits" in terminal.text)
    terminal.type("Hi\r")
    terminal.until(lambda: "word3" in terminal.text)
    (tmp_path / "folder" / "now").touch()
    assert terminal.ended() == CRASHED
    terminal.assert_restored()
    paths = Paths.under(tmp_path / "folder")
    history = History.open(paths.database, paths.locks)
    answer = history.path(1)[-1]
    assert answer.text.startswith("word0 word1 ")
    assert answer.status == "stopped"
    assert history.notices == []
    history.close()


def test_a_defect_before_there_is_a_screen_is_told_too(
    begin_terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    terminal = begin_terminal("crash-early")
    assert terminal.ended() == CRASHED
    terminal.assert_restored()
    assert b"\x1b[?1049h" not in terminal.written
    assert_told_of_a_defect(terminal, Paths.under(tmp_path / "folder").log)


def assert_told_of_a_defect(terminal: Terminal, log: Path) -> None:
    words = terminal.written.decode()
    assert words.endswith(f"ended by a defect of its own. The log says where: {log}\r\n")
    for kept in ("Traceback", "ZeroDivisionError", "the text of a chat"):
        assert kept not in words
    assert "ZeroDivisionError" in log.read_text()
    assert "the text of a chat" not in log.read_text()


def ended_at_start(home: Path) -> tuple[int, str]:
    """Status and words of the real program where it never comes to a screen."""
    program = Program(home)
    try:
        return program.ended(), program.written.decode()
    finally:
        program.close()


@pytest.mark.parametrize("name", ["state", "state/localchat.log"])
def test_where_no_log_can_be_written_the_program_says_so_before_any_screen(
    tmp_path: Path, name: str
) -> None:
    home = tmp_path / "home"
    if name == "state":
        (home / name).write_text("a file where the folder should be")
    else:
        (home / name).mkdir(parents=True)
    status, words = ended_at_start(home)
    assert status == 1
    assert str(home / name) in words.replace("\r\n", "")
    assert "Check the path." in words or "Move the folder away" in words
    assert "Traceback" not in words
    assert "\x1b[?1049h" not in words
