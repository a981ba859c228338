"""Laws of publishing: nothing is lost or reordered, and a screen is not woken more than needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.chat import Prepared
from engine.events import (
    Delta,
    Event,
    Failed,
    Finished,
    FinishReason,
    PromptProgress,
    Result,
    Started,
)
from engine.failure import NOT_FINITE
from engine.request import Request
from engine.worker.publisher import INTERVAL_S, Publisher


def make_result(reason: FinishReason = "stop", text: str = "") -> Result:
    return Result(text, "", (), reason, 1, "f16")


def published(
    events: list[tuple[float, Event]], prepared: Prepared, load_ms: float = 0.0
) -> list[Event]:
    sent: list[Event] = []
    publisher = Publisher(sent.append, load_ms)
    publisher.open(prepared)
    for now, event in events:
        publisher.publish([event], now)
    return sent


ANSWER = Prepared(Request("r", (1,)), "answer")


@given(st.lists(st.tuples(st.floats(0, 0.3), st.text(max_size=3)), max_size=40))
def test_what_is_gathered_is_what_was_said_at_most_ten_times_a_second(
    steps: list[tuple[float, str]],
) -> None:
    now, events = 100.0, list[tuple[float, Event]]()
    for index, (pause, text) in enumerate(steps):
        now += pause
        events.append((now, Delta("r", (index,), text, "")))
    sent = published([*events, (now, Finished("r", make_result()))], ANSWER)
    deltas = [event for event in sent if isinstance(event, Delta)]
    assert tuple(i for delta in deltas for i in delta.ids) == tuple(range(len(steps)))
    assert "".join(delta.text for delta in deltas) == "".join(text for _, text in steps)
    assert isinstance(sent[-1], Finished)
    assert len(deltas) <= 3 + (now - 100.0) / (INTERVAL_S * 0.98)


def test_the_first_delta_goes_at_once_and_the_next_one_waits() -> None:
    deltas: list[tuple[float, Event]] = [(5.0, Delta("r", (1,), "a", ""))]
    assert len(published(deltas, ANSWER)) == 1
    assert len(published([*deltas, (5.01, Delta("r", (2,), "b", ""))], ANSWER)) == 1


def test_a_waiting_delta_goes_with_any_later_step() -> None:
    sent: list[Event] = []
    publisher = Publisher(sent.append)
    publisher.open(ANSWER)
    publisher.publish([Delta("r", (1,), "a", "")], 5.0)
    publisher.publish([Delta("r", (2,), "b", "")], 5.01)
    publisher.publish([], 5.2)
    assert [event.text for event in sent if isinstance(event, Delta)] == ["a", "b"]


def test_progress_of_the_whole_prompt_is_always_told() -> None:
    events: list[tuple[float, Event]] = [
        (0.001 * n, PromptProgress("r", n, 100, 1.0)) for n in range(101)
    ]
    sent = [event for event in published(events, ANSWER) if isinstance(event, PromptProgress)]
    assert sent[-1].done == 100
    assert len(sent) <= 3


def test_what_was_said_before_a_failure_is_told() -> None:
    failure = Failed("r", NOT_FINITE)
    steps: list[tuple[float, Event]] = [
        (5.0, Delta("r", (1,), "a", "")),
        (5.01, Delta("r", (2,), "b", "")),
        (5.02, failure),
    ]
    sent = published(steps, ANSWER)
    assert [type(event) for event in sent] == [Delta, Delta, Failed]


def test_internal_requests_are_not_told() -> None:
    rewrite = Prepared(Request("r", (1,), conversation="c", replaces=True), "canonical")
    steps: list[tuple[float, Event]] = [
        (1.0, Started("r", 1, 0, 0)),
        (1.0, PromptProgress("r", 1, 1, 0.0)),
        (1.0, Finished("r", make_result())),
    ]
    assert published(steps, rewrite, load_ms=5.0) == []


def test_results_are_completed() -> None:
    stopping = Prepared(Request("r", (1,)), "answer", ("left out 1 turn",), stops_early=True)
    (event,) = published([(1.0, Finished("r", make_result("length")))], stopping, load_ms=5.0)
    assert isinstance(event, Finished)
    assert event.result.finish_reason == "cancelled"
    assert event.result.notices == ("left out 1 turn",)
    assert event.result.timings.load_ms == 5.0
    title = Prepared(Request("r", (1,)), "title")
    (event,) = published([(1.0, Finished("r", make_result(text='"A title"')))], title)
    assert isinstance(event, Finished)
    assert event.result.text == "A title"
