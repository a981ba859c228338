"""Engine events -> messages: deltas gathered into a few a second, results with what the engine does
not know.

The first delta of an answer goes at once. Knows no model and no thread; the time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from engine.chat import Prepared
from engine.events import (
    Delta,
    Event,
    Failed,
    Finished,
    PromptProgress,
    Result,
    Started,
)
from engine.titles import clean_title

INTERVAL_S = 0.1
"""A screen that draws every token burns half a core; at ten draws a second a sixth."""
_BLINK_S = 0.001


@dataclass(slots=True)
class _Stream:
    prepared: Prepared
    ids: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    delta_due: float = 0.0
    progress_due: float = 0.0


class Publisher:
    """`send` gets every message; `load_ms` is told with the first answer only."""

    def __init__(self, send: Callable[[Event], None], load_ms: float = 0.0) -> None:
        self._send = send
        self._load_ms = load_ms
        self._streams: dict[str, _Stream] = {}

    def open(self, prepared: Prepared) -> None:
        """Events of this request are published from now on."""
        self._streams[prepared.request.request_id] = _Stream(prepared)

    @property
    def requests(self) -> tuple[Prepared, ...]:
        """Those that are not finished."""
        return tuple(stream.prepared for stream in self._streams.values())

    def publish(self, events: list[Event], now: float) -> list[tuple[Prepared, Finished]]:
        """Send what is due; returns the requests that finished, as they were told."""
        finished = []
        for event in events:
            stream = self._streams.get(event.request_id or "")
            if isinstance(event, Failed) and event.request_id is None:
                self._send(event)
            elif stream is not None:
                done = self._one(stream, event, now)
                if done is not None:
                    finished.append((stream.prepared, done))
        self._flush_due(now)
        return finished

    def _one(self, stream: _Stream, event: Event, now: float) -> Finished | None:
        match event:
            case Started():
                self._tell(stream, event)
            case PromptProgress():
                self._progress(stream, event, now)
            case Delta(ids=ids, text=text, reasoning=reasoning):
                stream.ids.extend(ids)
                stream.text.append(text)
                stream.reasoning.append(reasoning)
            case Failed():
                self._flush(stream, event.request_id or "", now)
                self._end(stream, event)
            case Finished():
                self._flush(stream, event.request_id, now)
                done = Finished(event.request_id, self._completed(stream.prepared, event.result))
                self._end(stream, done)
                return done
        return None

    def _progress(self, stream: _Stream, event: PromptProgress, now: float) -> None:
        if now >= stream.progress_due or event.done == event.total:
            stream.progress_due = now + INTERVAL_S
            self._tell(stream, event)

    def _flush_due(self, now: float) -> None:
        for request_id, stream in self._streams.items():
            if now >= stream.delta_due - _BLINK_S:
                self._flush(stream, request_id, now)

    def _flush(self, stream: _Stream, request_id: str, now: float) -> None:
        """One delta for all that has gathered."""
        if not stream.ids and not any(stream.text) and not any(stream.reasoning):
            return
        delta = Delta(
            request_id, tuple(stream.ids), "".join(stream.text), "".join(stream.reasoning)
        )
        stream.ids, stream.text, stream.reasoning = [], [], []
        stream.delta_due = now + INTERVAL_S
        self._tell(stream, delta)

    def _end(self, stream: _Stream, event: Finished | Failed) -> None:
        del self._streams[event.request_id or ""]
        self._tell(stream, event)

    def _tell(self, stream: _Stream, event: Event) -> None:
        if not stream.prepared.request.replaces:
            self._send(event)

    def _completed(self, prepared: Prepared, result: Result) -> Result:
        notices = (*prepared.notices, *result.notices)
        result = replace(result, notices=notices)
        if prepared.stops_early and result.finish_reason == "length":
            result = replace(result, finish_reason="cancelled")
        if prepared.kind == "title":
            return replace(result, text=clean_title(result.text))
        if not prepared.request.replaces and self._load_ms:
            timings = replace(result.timings, load_ms=self._load_ms)
            result, self._load_ms = replace(result, timings=timings), 0.0
        return result
