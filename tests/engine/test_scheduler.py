"""Pieces of a step: bounded by time, never leaving a single row, in the order of priorities."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.base import BackendFacts
from engine.backends.scripted import scripted_backend
from engine.backends.scripted_vocabulary import ScriptedVocabulary
from engine.cache.residency import State
from engine.config import EngineConfig
from engine.output.answer import AnswerText
from engine.rates import Rates
from engine.request import Priority, Request
from engine.scheduler import Plan, Scheduler
from engine.sequence import Clocks, Sequence


def facts(**options: Any) -> BackendFacts:
    return scripted_backend(context=1 << 17, min_recompute=2, **options).facts


def sequence(
    prompt: int,
    forwarded: int = 0,
    *,
    sampled: int = 0,
    priority: Priority = Priority.INTERACTIVE,
    order: int = 0,
    admitted: bool = True,
) -> Sequence:
    answer = AnswerText(ScriptedVocabulary(), (), ("<think>", "</think>"), False)
    made = Sequence(
        Request(f"{order}", (1,) * prompt, priority=priority),
        order,
        answer,
        None,
        [1] * (prompt + sampled),
        Clocks(),
    )
    made.state = State(length=forwarded)
    made.admitted = admitted
    return made


def decoding(priority: Priority = Priority.INTERACTIVE, order: int = 0) -> Sequence:
    return sequence(10, 10, sampled=1, priority=priority, order=order)


def rates(token_s: float, decode_s: float = 0.0) -> Rates:
    known = Rates()
    known.record(0, 1000, 0, 1000 * token_s)
    known.record(1, 0, 0, decode_s)
    return known


def counts(plan: Plan) -> list[int]:
    return [piece.count for piece in plan.pieces]


@given(
    st.integers(1, 1500),
    st.sampled_from([None, 1e-5, 0.0008, 0.0031, 0.009, 0.05]),
    st.booleans(),
    st.booleans(),
)
def test_no_piece_and_no_rest_is_a_single_row(
    prompt: int, token_s: float | None, streaming: bool, marks: bool
) -> None:
    options = {"recurrent": True} if marks else {}
    scheduler = Scheduler(EngineConfig(), facts(**options))
    known = Rates() if token_s is None else rates(token_s, 0.01)
    reading = sequence(prompt, order=1)
    active = [decoding(), reading] if streaming else [reading]
    pieces = []
    while reading.pending:
        piece = scheduler.plan(active, known, 8).pieces[-1]
        assert piece.sequence is reading
        assert piece.wants_scores == (piece.count == reading.pending)
        reading.state.length += piece.count
        pieces.append(piece.count)
    assert sum(pieces) == prompt
    assert max(pieces) <= 512
    if prompt > 1:
        assert min(pieces) >= 2
        assert all(piece % 128 != 1 for piece in pieces)
    if marks and prompt > 4 and (prompt - 2) % 128 != 1:
        assert pieces[-1] == 2


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("token_s", [0.0004, 0.001, 0.004])
def test_a_step_lasts_as_long_as_it_may(streaming: bool, token_s: float) -> None:
    scheduler = Scheduler(EngineConfig(), facts())
    known = rates(token_s, 0.02)
    reading = sequence(100_000, order=1)
    plan = scheduler.plan([decoding(), reading] if streaming else [reading], known, 8)
    limit_s = 0.15 if streaming else 0.5
    seconds = plan.pieces[-1].count * token_s + (0.02 if streaming else 0)
    assert seconds <= limit_s
    assert plan.pieces[-1].count == 512 - streaming or seconds > limit_s / 2 - 0.02 - 128 * token_s


def test_a_very_slow_prompt_still_advances() -> None:
    scheduler = Scheduler(EngineConfig(), facts())
    plan = scheduler.plan([decoding(), sequence(900, order=1)], rates(0.5), 8)
    assert counts(plan) == [1, 16]


def test_pieces_end_at_micro_batches() -> None:
    scheduler = Scheduler(EngineConfig(), facts())
    assert counts(scheduler.plan([sequence(5000)], rates(0.5 / 400), 8)) == [384]


def test_answers_come_first_then_prompts_by_priority_and_age() -> None:
    scheduler = Scheduler(EngineConfig(), facts())
    late = sequence(50, order=3)
    variant = sequence(50, priority=Priority.VARIANT, order=1)
    answer = decoding(Priority.VARIANT, order=2)
    background = sequence(50, priority=Priority.BACKGROUND, order=0)
    active = scheduler.active([background, variant, answer, late])
    assert active == [late, variant, answer]
    plan = scheduler.plan(active, rates(0.001), 8)
    assert [piece.sequence for piece in plan.pieces] == [answer, late, variant]
    assert [p.sequence for p in scheduler.plan(active, rates(0.001), 1).pieces] == [late]
    assert scheduler.active([background]) == [background]


def test_background_steps_are_short_because_they_must_yield() -> None:
    scheduler = Scheduler(EngineConfig(), facts())
    job = sequence(5000, priority=Priority.BACKGROUND)
    (count,) = counts(scheduler.plan([job], rates(0.001), 8))
    assert count == 128


def test_one_prompt_is_admitted_at_a_time_but_a_more_urgent_one_at_once() -> None:
    scheduler = Scheduler(EngineConfig(), facts())
    reading = sequence(500, order=0)
    waiting = sequence(500, order=1, admitted=False)
    urgent = sequence(500, order=2, admitted=False)
    assert scheduler.next_admission([reading, waiting]) is None
    assert scheduler.next_admission([decoding(), waiting]) is waiting
    reading_variant = sequence(500, priority=Priority.VARIANT)
    active = scheduler.active([reading_variant, urgent])
    assert scheduler.next_admission(active) is urgent


def test_rates_follow_the_measured_speed_and_the_depth() -> None:
    known = Rates()
    assert known.prefill_token_s(0) is None
    known.record(0, 100, 0, 0.1)
    known.record(0, 100, 5000, 0.4)
    assert known.prefill_token_s(0) == pytest.approx(0.001)
    assert known.prefill_token_s(6000) == pytest.approx(0.004)
    for _ in range(12):
        known.record(0, 100, 0, 0.3)
    assert known.prefill_token_s(0) == pytest.approx(0.003, rel=0.01)
    known.record(2, 0, 0, 0.05)
    known.record(2, 100, 100, 0.25)
    assert known.prefill_token_s(100) == pytest.approx(0.002)
    assert known.decode_step_s == pytest.approx(0.05)


def test_tiny_pieces_and_stopped_clocks_teach_nothing_wrong() -> None:
    known = Rates()
    known.record(0, 2, 0, 1.0)
    assert known.prefill_token_s(0) is None
    known.record(0, 100, 0, 0.0)
    seconds = known.prefill_token_s(0)
    assert seconds is not None
    assert seconds > 0
