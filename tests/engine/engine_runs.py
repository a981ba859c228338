"""Runs of an engine on a scripted backend, with its books checked after every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.backends.scripted import ScriptedBackend, scripted_backend
from engine.backends.scripted_vocabulary import ScriptedVocabulary
from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Delta, Event, Failed, Finished, Result
from engine.request import Limits, Request, Sampling

GREEDY = Sampling(temperature=0.0)


class Clock:
    """Seconds that pass only when a test says so, or by `per_call` with every look."""

    def __init__(self, per_call: float = 0.0) -> None:
        self.now = 0.0
        self.per_call = per_call

    def __call__(self) -> float:
        self.now += self.per_call
        return self.now


@dataclass
class Rig:
    """One engine with its backend; `events` are all that it told."""

    backend: ScriptedBackend = field(default_factory=scripted_backend)
    config: EngineConfig = field(default_factory=EngineConfig)
    clock: Callable[[], float] = field(default_factory=Clock)
    vocabulary: ScriptedVocabulary = field(default_factory=ScriptedVocabulary)

    def __post_init__(self) -> None:
        self.engine = Engine(self.backend, self.vocabulary, self.config, self.clock)
        self.events: list[Event] = []

    def step(self) -> list[Event]:
        events = self.engine.step()
        self.engine.validate(self.backend.length)
        self.events += events
        return events

    def run(self, *requests: Request) -> list[Result]:
        """Submit together, step to the end; the results in the order of the requests."""
        for request in requests:
            self.engine.submit(request)
        self.drain()
        return [self.result(request.request_id) for request in requests]

    def drain(self) -> None:
        while self.engine.busy:
            self.step()

    def result(self, request_id: str) -> Result:
        for event in reversed(self.events):
            if isinstance(event, Finished) and event.request_id == request_id:
                return event.result
            if isinstance(event, Failed) and event.request_id == request_id:
                raise AssertionError(event.cause)
        raise AssertionError(f"{request_id} has not finished")

    def failure(self, request_id: str) -> Failed:
        found = [e for e in self.events if isinstance(e, Failed) and e.request_id == request_id]
        assert len(found) == 1
        return found[0]

    def deltas(self, request_id: str) -> list[Delta]:
        return [e for e in self.events if isinstance(e, Delta) and e.request_id == request_id]


def checked_step(rig: Rig) -> None:
    """A step; what is kept afterwards was forwarded and sampled."""
    rig.step()
    for entry in rig.engine.cache.entries:
        if entry.state.number is not None:
            assert rig.backend.ids(entry.state.number) == entry.ids.tolist()


def untimed(result: Result) -> Result:
    """What must be equal."""
    return dataclasses.replace(result, timings=type(result.timings)())


def ask(
    name: str,
    ids: Sequence[int] | bytes,
    tokens: int = 8,
    *,
    sampling: Sampling = GREEDY,
    conversation: str = "chat",
    stop: tuple[str, ...] = (),
) -> Request:
    return Request(name, tuple(ids), sampling, Limits(tokens, stop), conversation=conversation)


def cold(request: Request) -> tuple[int, ...]:
    """What a fresh engine samples, alone and in large pieces."""
    rig = Rig(scripted_backend(context=1 << 16), EngineConfig(cache_bytes=0))
    return rig.run(request)[0].token_ids
