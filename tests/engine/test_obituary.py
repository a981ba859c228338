"""What is told of a worker's end, from a log that others may write too."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from engine.obituary import LogPart, last_lines, obituary
from engine.worker import process


def line(pid: int, text: str) -> str:
    return f"2026-01-02 03:04:05,678 {pid} localchat.worker INFO {text}\n"


def test_only_lines_of_the_process_that_ended_are_quoted(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(
        line(7, "of an earlier worker with this number")
        + (head := line(7, "mine") + "Traceback of mine\n")
        + line(8, "of another") * 50
        + "Traceback of another\n"
        + (tail := line(7, "mine again") + "GGML_ASSERT failed\n" + "Fatal Python error: Aborted\n")
    )
    start = log.read_text().index(head)
    assert last_lines(LogPart(log, start, 7)) == (head + tail).splitlines()
    assert "another" not in obituary(-6, False, None, LogPart(log, start, 7)).text


def test_what_is_logged_has_the_head_that_is_looked_for(tmp_path: Path) -> None:
    record = logging.LogRecord("localchat.worker", logging.INFO, "", 0, "hello", None, None)
    log = tmp_path / "engine.log"
    log.write_text(logging.Formatter(process.FORMAT).format(record))
    assert last_lines(LogPart(log, 0, os.getpid())) == [log.read_text()]
    assert last_lines(LogPart(log, 0, os.getpid() + 1)) == []
