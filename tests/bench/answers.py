"""Answers of a real worker, for measuring: one call each, with the times of their tokens."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.client import EngineClient
from engine.events import Delta, Failed, Finished, Result
from engine.messages import ChatMessage, LoadOptions, SamplingOverrides, Submit

GREEDY = SamplingOverrides(temperature=0.0)
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Answer:
    """Times of `time.perf_counter`."""

    result: Result
    submitted: float
    deltas: tuple[tuple[float, int], ...]
    """When tokens arrived, and how many."""
    finished: float


@contextmanager
def worker(folder: Path, model: Path, options: LoadOptions) -> Iterator[EngineClient]:
    """A worker of its own with the model loaded."""
    client = EngineClient(folder / "engine.log")
    try:
        client.load(str(model), options)
        yield client
    finally:
        client.close()


def question(
    *texts: str, conversation: str = "", max_tokens: int | None = None, **fields: object
) -> Submit:
    """Texts are of the person and the model in turns."""
    messages = tuple(
        ChatMessage("assistant" if place % 2 else "user", text) for place, text in enumerate(texts)
    )
    return Submit(
        f"measured {next(_numbers)}",
        conversation,
        messages,
        sampling=GREEDY,
        max_tokens=max_tokens,
        **fields,  # type: ignore[arg-type]  # the caller's words are the fields of Submit
    )


def answer(client: EngineClient, submit: Submit) -> Answer:
    """Raises RuntimeError where it failed."""
    submitted = time.perf_counter()
    deltas = []
    for event in client.submit(submit):
        now = time.perf_counter()
        if isinstance(event, Delta):
            deltas.append((now, len(event.ids)))
        elif isinstance(event, Failed):
            raise RuntimeError(event.cause.title)
        elif isinstance(event, Finished):
            return Answer(event.result, submitted, tuple(deltas), now)
    raise RuntimeError("the answer did not end")
