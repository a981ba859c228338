"""The screen while a long Markdown answer streams: speed, processor share, echo, memory.

    python -m tests.bench.screen [MODEL]

Real program, real model, 80x24, one answer that is only watched and one while keys are typed. The
same answer is written without a screen (`ask`) before and after. `bench` tells the speed at two
depths; from these follows its speed over the depths that the answer goes through. The last line is
JSON.
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
WATCHED_S = 5.0
DEPTHS = {"tg128": 32 + 128 / 2, "tg64@4096": 4096 + 64 / 2}
"""Tokens before the middle of what `bench` writes."""


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


def begin(terminal: Terminal) -> None:
    """The answer is streaming."""
    terminal.until_quiet(1.5)
    terminal.type(QUESTION)
    terminal.until_quiet(0.5)  # Enter right behind other keys is part of a paste
    terminal.type("\r")
    time.sleep(1.0)


def watched(terminal: Terminal) -> dict[str, float]:
    """Nothing is typed."""
    begin(terminal)
    busy, started = terminal.front_end_s(), time.perf_counter()
    time.sleep(WATCHED_S)
    share = (terminal.front_end_s() - busy) / (time.perf_counter() - started)
    terminal.until_quiet(2.0)
    return {"watched_front_end_percent": round(100 * share, 1)}


def typed(terminal: Terminal) -> dict[str, float]:
    """Keys are typed all through the answer."""
    resident = sum(process.memory_info().rss for process in terminal.front_end)
    begin(terminal)
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
        "typed_front_end_percent": round(100 * share, 1),
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


def bench_rate(results: list[dict[str, Any]], depth: float) -> float:
    """Tokens/s at this depth: the time of a token grows with it in a straight line."""
    rates = {one["test"]: one["tokens_per_s"] for one in results}
    (shallow, fast), (deep, slow) = ((at, 1 / rates[test]) for test, at in DEPTHS.items())
    return 1 / float(fast + (slow - fast) * (depth - shallow) / (deep - shallow))


def main() -> None:
    chosen = ("-m", sys.argv[1]) if len(sys.argv) > 1 else ()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    measured: dict[str, float] = {}
    screens: dict[str, AnswerInfo] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        paints = [first_paint(home) for _ in range(STARTS + 1)][1:]
        before = ask(home, chosen)
        for one in (watched, typed):
            with opened(home, *OPTIONS, *chosen) as terminal:
                measured |= one(terminal)
            screens[one.__name__] = last_answer(home)
        after = ask(home, chosen)
        bench = run_program(home, "bench", "--json", *chosen).objects[-1]
    usage = screens["watched"].usage
    middle = usage.prompt_tokens + usage.completion_tokens / 2
    without = [one["timings"]["decode_tokens_per_s"] for one in (before, after)]
    rates = {
        "ask": sum(without) / 2,
        "bench": bench_rate(bench["results"], middle),
        "bench_tg128": bench_rate(bench["results"], DEPTHS["tg128"]),
        **{name: info.timings.decode_tokens_per_s for name, info in screens.items()},
    }
    report = {
        "tokens": [info.usage.completion_tokens for info in screens.values()],
        "tokens_per_s": {name: round(rate, 1) for name, rate in rates.items()},
        "watched/bench": round(rates["watched"] / rates["bench"], 3),
        "watched/ask": round(rates["watched"] / rates["ask"], 3),
        "typed/ask": round(rates["typed"] / rates["ask"], 3),
        "first_paint_ms": round(1e3 * median(paints), 1),
        **measured,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
