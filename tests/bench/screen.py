"""The screen while a long Markdown answer streams: speed, processor share, echo, memory.

    python -m tests.bench.screen [MODEL]

Real program, real model, 80x24, one answer that is only watched and one while keys are typed. The
same answer is written without a screen (`ask`) before and after, and an answer of that length by
what `bench` measures, the engine alone. `bench` itself writes 128 tokens. The last line is JSON.
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
from tests import real_models
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


def engine_rate(path: Path) -> float:
    """Tokens/s of the engine alone, as `bench` runs it, from an empty context to the same depth."""
    from engine.backends.llama_cpp.loader import load_model
    from engine.backends.llama_cpp.settings import BackendOptions
    from engine.bench.__main__ import opened as opened_bench
    from engine.bench.job import Job
    from engine.bench.measure import SHORT_PROMPT, warm_up

    model = load_model(path, BackendOptions(), lambda _done, _total: True)
    with opened_bench(model, Job(str(path)), "auto") as (bench, _):
        warm_up(bench)
        bench.engine.begin(bench.prompt(1, SHORT_PROMPT), TOKENS + 1)
        bench.engine.write(1)
        started = time.perf_counter()
        bench.engine.write(TOKENS - 1)
        return (TOKENS - 1) / (time.perf_counter() - started)


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
    path = Path(chosen[1]) if chosen else real_models.starter()
    without = [one["timings"]["decode_tokens_per_s"] for one in (before, after)]
    rates = {
        "ask": sum(without) / 2,
        "engine": engine_rate(path),
        "bench_tg128": next(r["tokens_per_s"] for r in bench["results"] if r["test"] == "tg128"),
        **{name: info.timings.decode_tokens_per_s for name, info in screens.items()},
    }
    report = {
        "tokens": [info.usage.completion_tokens for info in screens.values()],
        "tokens_per_s": {name: round(rate, 1) for name, rate in rates.items()},
        "watched/engine": round(rates["watched"] / rates["engine"], 3),
        "watched/ask": round(rates["watched"] / rates["ask"], 3),
        "typed/ask": round(rates["typed"] / rates["ask"], 3),
        "first_paint_ms": round(1e3 * median(paints), 1),
        **measured,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
