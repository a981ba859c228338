"""Writing beside a busy program: threads that follow the load against the best fixed number.

    python -m tests.bench.spinner [MODEL]

Linux. A process outside our family spins on one core. After each change the speed counts from two
seconds on. Three rounds; medians. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from engine.backends.llama_cpp.threads import allowed_cores
from engine.client import EngineClient
from engine.messages import LoadOptions
from tests import real_models
from tests.bench.answers import answer, question, worker

GRACE_S = 2.0
COUNTED_S = 5.0
ROUNDS = 3
ANSWER_TOKENS = 200


@contextmanager
def busy_program() -> Iterator[None]:
    """Its parent ends at once, so that it is nobody's child."""
    command = f"{sys.executable} -c 'while True: pass' >/dev/null 2>&1 & echo $!"
    started = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    try:
        yield
    finally:
        os.kill(int(started.stdout), signal.SIGKILL)


def speed(client: EngineClient, grace_s: float = 0.0) -> float:
    """Tokens a second from `grace_s` on, in answers of the same length one after another."""
    begin = time.perf_counter() + grace_s
    end = begin + COUNTED_S
    tokens = 0
    while time.perf_counter() < end:
        written = answer(client, question("Write a long story.", max_tokens=ANSWER_TOKENS))
        tokens += sum(count for at, count in written.deltas if begin <= at < end)
    return tokens / COUNTED_S


def one_round(clients: dict[str, EngineClient]) -> dict[str, dict[str, float]]:
    fixed = [name for name in clients if name != "auto"]
    with busy_program():
        beside = {"auto": speed(clients["auto"], GRACE_S)}
        beside |= {name: speed(clients[name]) for name in fixed}
        answer(clients["auto"], question("Write a long story.", max_tokens=ANSWER_TOKENS))
    alone = {"auto": speed(clients["auto"], GRACE_S)}
    alone |= {name: speed(clients[name]) for name in fixed}
    return {"beside": beside, "alone": alone}


def main() -> None:
    model = Path(sys.argv[1]) if len(sys.argv) > 1 else real_models.starter()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clients = {}
        for name in ("auto", *(str(n + 1) for n in range(allowed_cores()))):
            options = LoadOptions(threads=None if name == "auto" else int(name), self_tune=False)
            clients[name] = stack.enter_context(worker(folder, model, options))
        rounds = [one_round(clients) for _ in range(ROUNDS)]
    report: dict[str, object] = {}
    for when in ("beside", "alone"):
        rates = {name: median(one[when][name] for one in rounds) for name in clients}
        best = max(rate for name, rate in rates.items() if name != "auto")
        report[when] = {
            "tokens_per_s": {name: round(rate, 1) for name, rate in rates.items()},
            "auto/best": round(rates["auto"] / best, 3),
        }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
