"""How long a person waits: for a stop, for a reopened chat, and while another prompt is read.

    python -m tests.bench.waiting [MODEL]

Real worker through its client. The last line is JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from engine.client import EngineClient
from engine.events import Delta, Finished, PromptProgress
from engine.messages import LoadOptions, Submit
from tests import real_models
from tests.bench.answers import Answer, answer, question, worker

ROUNDS = 5
CONTEXT = 8192
CHAT_TOKENS = 3000
WORDS = "The lighthouse keeper wrote down the wind, the rain and every ship that passed. "


def text_of(client: EngineClient, tokens: int, beginning: str = "") -> str:
    """A text of about so many tokens."""
    counted = client.count(WORDS * 64)
    assert counted is not None
    each = counted / 64
    return beginning + WORDS * int(tokens / each)


def stop_after(client: EngineClient, submit: Submit, kind: type, count: int) -> float:
    """Seconds from the stop, after so many events of a kind, to the end of the request."""
    seen = 0
    stopped = 0.0
    for event in client.submit(submit):
        if isinstance(event, kind):
            seen += 1
            if seen == count:
                stopped = time.perf_counter()
                client.cancel(submit.request_id)
        if isinstance(event, Finished):
            assert event.result.finish_reason == "cancelled"
    return time.perf_counter() - stopped


def stop_reading(client: EngineClient, number: int) -> float:
    """While a prompt that fills the window is read."""
    text = text_of(client, CONTEXT - 200, f"Report {number}. ")
    return stop_after(client, question(text, conversation="window"), PromptProgress, 3)


def stop_writing(client: EngineClient, number: int) -> float:
    submit = question(f"Write a long story, number {number}.", conversation="story")
    return stop_after(client, submit, Delta, 5)


def longest_gap(client: EngineClient, number: int) -> float:
    """Between two pieces of a streaming answer, while another prompt is read beside it."""
    story = question(f"Write a long story, number {number}.", conversation="story", max_tokens=600)
    other = question(
        text_of(client, CHAT_TOKENS, f"Report {number}. "), conversation="other", max_tokens=1
    )
    reading: list[Answer] = []
    thread: threading.Thread | None = None
    times = []
    for event in client.submit(story):
        if isinstance(event, Delta):
            times.append(time.perf_counter())
            if len(times) == 5:
                thread = threading.Thread(target=lambda: reading.append(answer(client, other)))
                thread.start()
    assert thread is not None
    thread.join()
    (read,) = reading
    inside = [at for at in times if read.submitted <= at <= read.finished]
    assert len(inside) > 2, "the answer ended before the prompt was read"
    return max(later - earlier for earlier, later in pairwise(inside))


def reopening(folder: Path, model: Path, options: LoadOptions, number: int) -> dict[str, float]:
    """Milliseconds to the first word of the next turn: read anew, and after a restart."""
    with worker(folder, model, options) as client:
        texts = [text_of(client, CHAT_TOKENS, f"Diary {number}. ")]
        said = answer(client, question(*texts, conversation="chat 1", max_tokens=20))
        texts += [said.result.text, "Which ships passed?"]
    with worker(folder, model, options) as client:
        restored = answer(client, question(*texts, conversation="chat 1", max_tokens=2))
    with worker(folder, model, options) as client:
        cold = answer(client, question(*texts, conversation="", max_tokens=2))
    usage = restored.result.usage
    assert usage.restored_tokens > CHAT_TOKENS // 2, usage
    return {
        "cold_ms": 1e3 * (cold.deltas[0][0] - cold.submitted),
        "reopened_ms": 1e3 * (restored.deltas[0][0] - restored.submitted),
    }


def main() -> None:
    model = Path(sys.argv[1]) if len(sys.argv) > 1 else real_models.starter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = LoadOptions(ctx=CONTEXT, self_tune=False, cache_folder=str(folder / "cache"))
        opened = [reopening(folder, model, options, number) for number in range(3)]
        with worker(folder, model, options) as client:
            reading = [stop_reading(client, number) for number in range(ROUNDS)]
            writing = [stop_writing(client, number) for number in range(ROUNDS)]
            gaps = [longest_gap(client, number) for number in range(ROUNDS)]
    cold = median(one["cold_ms"] for one in opened)
    reopened = median(one["reopened_ms"] for one in opened)
    report = {
        "reopen_cold_ms": round(cold, 1),
        "reopen_restored_ms": round(reopened, 1),
        "reopened/cold": round(reopened / cold, 4),
        "stop_while_reading_ms": [round(1e3 * one, 1) for one in sorted(reading)],
        "stop_while_writing_ms": [round(1e3 * one, 1) for one in sorted(writing)],
        "longest_gap_ms": [round(1e3 * one, 1) for one in sorted(gaps)],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
