"""Laws of the engine, on a backend whose scores depend on every token that it holds."""

from __future__ import annotations

from engine.backends.scripted import ScriptedBackend, scripted_backend
from engine.backends.scripted_vocabulary import END, ScriptedVocabulary
from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Delta, Event, Finished, PromptProgress, Started
from engine.request import Limits, Request, Sampling

GREEDY = Sampling(temperature=0.0)


def run(engine: Engine, backend: ScriptedBackend, *requests: Request) -> list[Event]:
    """Submit, then step to the end; the books are checked after every step."""
    for request in requests:
        engine.submit(request)
    events: list[Event] = []
    while engine.busy:
        events += engine.step()
        engine.validate(backend.length)
    return events


def test_a_request_runs_from_submit_to_finished() -> None:
    backend = scripted_backend(script=[list(b"Hello")])
    engine = Engine(backend, ScriptedVocabulary(), EngineConfig())
    events = run(engine, backend, Request("r", tuple(b"Say hello"), GREEDY, Limits(20)))
    assert [type(event) for event in events[:2]] == [Started, PromptProgress]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.result.text == "Hello"
    assert finished.result.token_ids == (*b"Hello", END)
    assert finished.result.finish_reason == "stop"
    deltas = [event for event in events if isinstance(event, Delta)]
    assert "".join(delta.text for delta in deltas) == "Hello"
