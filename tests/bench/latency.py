"""How long a person waits at the command line: help, lists, a first answer, an answer that goes on.

    python -m tests.bench.latency [MODEL]

Each command runs five times in folders of its own; the median counts. The last line is JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.app.program import run_program

ROUNDS = 5


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def measure(home: Path, model: str | None) -> dict[str, float]:
    """Median milliseconds by what is asked for."""
    chosen = ("-m", model) if model else ()
    options = ("-o", "temperature=0", "-o", "max_tokens=1", *chosen)

    def command(*words: str) -> Callable[[], object]:
        def work() -> None:
            outcome = run_program(home, *words)
            if outcome.status != 0:
                raise SystemExit(f"{' '.join(words)}: {outcome.err}")

        return work

    commands = {
        "--help": command("--help"),
        "ask --help": command("ask", "--help"),
        "models": command("models"),
        "chats": command("chats"),
        "ask, one token": command("ask", *options, "Name a colour."),
        "ask -c, one token": command("ask", "-c", *options, "Another?"),
    }
    return {
        name: round(median(milliseconds(work) for _ in range(ROUNDS)), 1)
        for name, work in commands.items()
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        measured = measure(Path(home), sys.argv[1] if len(sys.argv) > 1 else None)
    for name, value in measured.items():
        print(f"{name:<20}{value:>10,.1f} ms")
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
