"""The screen while a long Markdown answer streams: speed, processor share, echo, memory.

    python -m tests.bench.screen [MODEL]

Real program, real model, 80x24. The same answer is written without a screen (`ask`) before and
after; `bench` gives the speed of short answers. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from app.store.conversation import AnswerInfo
from app.store.history import History
from tests.app.program import run_program
from tests.bench.terminal import READY, Terminal, opened

TOKENS = 1500
QUESTION = (
    "Write a very long guide to cooking in Markdown, with headings, bullet lists, a table and code "
    "blocks. Do not stop early."
)
OPTIONS = ("-o", "temperature=0", "-o", f"max_tokens={TOKENS}")
KEY = "ж"
KEYS = 100
IDLE_S = 10.0
STARTS = 5


def ask(home: Path, chosen: tuple[str, ...]) -> dict[str, Any]:
    """The same answer without a screen."""
    outcome = run_program(home, "ask", "--json", "--no-save", *OPTIONS, *chosen, QUESTION)
    return dict(outcome.objects[-1])


def first_paint(home: Path) -> float:
    """Seconds from the start to the first screen."""
    terminal = Terminal(home)
    try:
        return terminal.until_shown(READY)
    finally:
        terminal.close()


def echo(terminal: Terminal) -> float:
    """Seconds from a key to its character on the screen."""
    before = len(terminal.written)
    terminal.type(KEY)
    return terminal.until(lambda: terminal.written.find(KEY.encode(), before) >= 0)


def streaming(terminal: Terminal) -> dict[str, float]:
    """Keys are typed all through the answer."""
    terminal.until_quiet(1.5)
    resident = sum(process.memory_info().rss for process in terminal.front_end)
    terminal.type(QUESTION)
    terminal.until_quiet(0.5)  # Enter right behind other keys is part of a paste
    terminal.type("\r")
    time.sleep(1.0)
    busy, started = terminal.front_end_s(), time.perf_counter()
    keys: list[float] = []
    while len(keys) < KEYS:
        keys.append(echo(terminal))
        time.sleep(0.08)
    share = (terminal.front_end_s() - busy) / (time.perf_counter() - started)
    grown = max(resident, sum(process.memory_info().rss for process in terminal.front_end))
    terminal.until_quiet(2.0)
    idle, started = terminal.front_end_s(), time.perf_counter()
    time.sleep(IDLE_S)
    at_rest = (terminal.front_end_s() - idle) / (time.perf_counter() - started)
    keys.sort()
    return {
        "front_end_percent": round(100 * share, 1),
        "idle_percent": round(100 * at_rest, 2),
        "echo_ms_median": round(1e3 * median(keys), 1),
        "echo_ms_p99": round(1e3 * keys[len(keys) * 99 // 100 - 1], 1),
        "resident_mb": round(grown / 1e6, 1),
    }


def last_answer(home: Path) -> AnswerInfo:
    """As it was stored."""
    history = History.open(home / "data" / "chats.sqlite3", home / "data" / "locks")
    try:
        chat = history.latest()
        assert chat is not None
        info = history.path(chat.id)[-1].info
        assert info is not None
        return info
    finally:
        history.close()


def main() -> None:
    chosen = ("-m", sys.argv[1]) if len(sys.argv) > 1 else ()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        paints = [first_paint(home) for _ in range(STARTS + 1)][1:]
        before = ask(home, chosen)
        with opened(home, *OPTIONS, *chosen) as terminal:
            measured = streaming(terminal)
        screen = last_answer(home)
        after = ask(home, chosen)
        bench = run_program(home, "bench", "--json", *chosen).objects[-1]
    without = [one["timings"]["decode_tokens_per_s"] for one in (before, after)]
    rate, other = screen.timings.decode_tokens_per_s, sum(without) / 2
    short = next(one["tokens_per_s"] for one in bench["results"] if one["test"] == "tg128")
    report = {
        "tokens": screen.usage.completion_tokens,
        "screen_tokens_per_s": round(rate, 1),
        "ask_tokens_per_s": round(other, 1),
        "screen/ask": round(rate / other, 3),
        "bench_tg128": short,
        "screen/bench": round(rate / short, 3),
        "first_paint_ms": round(1e3 * median(paints), 1),
        **measured,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
