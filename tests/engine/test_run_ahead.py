"""Passes that are launched before their tokens are known change the time of an answer and nothing
else: whatever the backend chose, what the sampler chooses counts.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.base import CHOSEN, Row
from engine.backends.checks import check_rows
from engine.backends.scripted import Faults, ScriptedBackend, scripted_backend
from engine.backends.scripted_vocabulary import END
from engine.config import EngineConfig
from engine.errors import BackendLost
from engine.events import Delta, Failed, Result
from engine.request import Request, Sampling
from tests.engine.engine_runs import GREEDY, Rig, ask, checked_step, untimed

WARM = Sampling(temperature=0.9, top_k=40, top_p=0.95, min_p=0.02, seed=5)
NUCLEUS = dataclasses.replace(WARM, top_k=0)
"""Looks at more than candidates."""
PENALTIES = dataclasses.replace(WARM, repeat_penalty=1.2)
TYPICAL = dataclasses.replace(WARM, typical_p=0.9)
BIASED = dataclasses.replace(GREEDY, logit_bias=((7, 3.0),))
MOST = 64
PLAIN = EngineConfig(speculate=False)


def rig_of(max_choice: int = MOST, config: EngineConfig = PLAIN, **options: Any) -> Rig:
    return Rig(scripted_backend(max_choice=max_choice, **options), config)


def followers(backend: ScriptedBackend) -> list[Row]:
    return [row for rows in backend.forwards for row in rows if row.follows]


def run(rig: Rig, *requests: Request) -> list[Result]:
    for request in requests:
        rig.engine.submit(request)
    while rig.engine.busy:
        checked_step(rig)
    return [untimed(rig.result(request.request_id)) for request in requests]


# ---- when it runs ahead


def test_the_next_pass_is_launched_before_a_token_is_told() -> None:
    rig = rig_of()
    rig.engine.submit(ask("a", b"hello", 8))
    told = 0
    while rig.engine.busy:
        told += sum(isinstance(event, Delta) for event in rig.step())
        # The first token comes from the prompt's pass, and behind the last nothing is launched.
        if 2 <= told < 8:
            assert len(rig.backend.forwards) == told + 1
    assert len(rig.backend.forwards) == 8
    assert len(followers(rig.backend)) == 6


@pytest.mark.parametrize("sampling", [NUCLEUS, PENALTIES, TYPICAL, BIASED])
def test_what_needs_more_than_candidates_waits_for_its_tokens(sampling: Sampling) -> None:
    rig = rig_of()
    run(rig, ask("a", b"hello", 8, sampling=sampling))
    assert not followers(rig.backend)


def test_one_that_waits_for_its_tokens_lets_all_wait() -> None:
    rig = rig_of()
    run(rig, ask("a", b"hello", 8), ask("b", b"there", 8, sampling=NUCLEUS, conversation="b"))
    assert not followers(rig.backend)


def test_more_candidates_than_the_backend_has_are_not_asked_of_it() -> None:
    rig = rig_of(max_choice=39)
    run(rig, ask("a", b"hello", 8, sampling=WARM))
    assert not followers(rig.backend)


def test_a_backend_that_cannot_choose_is_never_asked_to() -> None:
    rig = rig_of(max_choice=0)
    run(rig, ask("a", b"hello", 8))
    assert all(row.choice is None for rows in rig.backend.forwards for row in rows)


def test_behind_a_last_token_nothing_is_launched() -> None:
    """Neither at the limit nor at the end of the context."""
    for rig, tokens in ((rig_of(), 6), (rig_of(context=11), 99)):
        result = run(rig, ask("a", b"hello", tokens))[0]
        assert result.finish_reason in ("length", "context")
        assert len(rig.backend.forwards) == 6
        assert ("truncate", 0, 10) not in rig.backend.calls


def test_drafts_come_as_soon_as_nothing_is_in_flight() -> None:
    passage = bytes(range(100, 180))
    asked = ask("copy", b"say it again: " + passage, 200)
    rig = rig_of(config=EngineConfig(), script=[[*passage]])
    assert run(rig, asked)[0].token_ids == (*passage, END)
    assert any(row.wants_all for rows in rig.backend.forwards for row in rows)
    assert len(rig.backend.forwards) < len(passage) / 2


# ---- what counts


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
def test_an_end_token_takes_the_pass_behind_it_back(sampling: Sampling) -> None:
    rig = rig_of(script=[[5, 6, 7]])
    result = run(rig, ask("a", b"hello", 50, sampling=sampling))[0]
    assert result.token_ids == (5, 6, 7, END)
    assert result.finish_reason == "stop"
    kept = rig.engine.cache.entries[0]
    assert kept.ids.tolist() == [*b"hello", 5, 6, 7]


def test_a_stop_string_takes_the_pass_behind_it_back() -> None:
    rig = rig_of(script=[[*b"one stop two"]])
    result = run(rig, ask("a", b"hello", 50, stop=("stop",)))[0]
    assert result.text == "one "
    assert rig.engine.cache.entries[0].ids.tolist() == [*b"hello", *b"one sto"]


def test_the_sampler_counts_where_the_backend_chose_otherwise() -> None:
    asked = [ask("a", b"hello", 12), ask("b", b"there", 9, sampling=WARM, conversation="b")]
    wanted = run(rig_of(0), *asked)
    rig = rig_of(faults=Faults(wrong_choices=frozenset(range(0, 40, 3))))
    assert run(rig, *asked) == wanted
    assert followers(rig.backend)


def test_scores_that_are_not_finite_end_only_their_answer() -> None:
    faults = Faults(nan_after=frozenset({9}))
    for most in (0, MOST):
        rig = rig_of(most, faults=faults)
        rig.engine.submit(ask("a", b"hello", 12))
        while rig.engine.busy:
            checked_step(rig)
        failed = rig.failure("a")
        assert failed.result is not None
        assert len(failed.result.token_ids) == 4


@pytest.mark.parametrize(
    "faults",
    [
        Faults(raise_at={4: RuntimeError("gone")}),
        Faults(interrupt_at={4: 0}),
        Faults(interrupt_at={4: 1}),
        Faults(room_tokens=14),
    ],
)
def test_a_launch_that_fails_is_as_if_it_had_not_been_tried(faults: Faults) -> None:
    asked = [ask("a", b"hello", 8), ask("b", b"to", 4, conversation="b")]
    wanted = run(rig_of(0), *asked)
    assert run(rig_of(faults=faults), *asked) == wanted


def test_what_breaks_when_it_is_read_ends_the_answers_of_its_pass() -> None:
    """With what was told before; the engine goes on."""
    rig = rig_of(faults=Faults(unreadable=frozenset({4})))
    rig.engine.submit(ask("a", b"hello", 12))
    while rig.engine.busy:
        checked_step(rig)
    failed = rig.failure("a")
    assert failed.result is not None
    assert len(failed.result.token_ids) == 4
    assert len(followers(rig.backend)) > 2
    after = ask("b", b"hello", 8, conversation="b")
    assert run(rig, after)[0].token_ids == run(rig_of(0), after)[0].token_ids


@pytest.mark.parametrize(
    ("most", "faults"),
    [
        (0, Faults(is_lost=True, raise_at={4: RuntimeError("illegal address")})),
        (MOST, Faults(is_lost=True, unreadable=frozenset({4}))),
    ],
)
def test_a_backend_that_is_lost_ends_the_engine(most: int, faults: Faults) -> None:
    """No further answer is tried, and nothing of it is kept."""
    rig = rig_of(most, faults=faults)
    rig.engine.submit(ask("a", b"hello", 12))
    with pytest.raises(BackendLost):
        rig.drain()
    assert not rig.engine.cache.entries


# ---- what happens meanwhile


def running(rig: Rig, tokens: int = 30) -> None:
    """One answer that streams, the next pass in flight."""
    rig.engine.submit(ask("a", b"hello", tokens))
    while len(rig.deltas("a")) < 4:
        checked_step(rig)
    assert bool(followers(rig.backend)) == bool(rig.backend.facts.max_choice)


def test_a_new_question_is_taken_in_at_once() -> None:
    rig, plain = rig_of(), rig_of(0)
    for one in (rig, plain):
        running(one)
        one.engine.submit(ask("b", b"and another one", 6, conversation="b"))
        checked_step(one)
        assert any(type(event).__name__ == "Started" for event in one.events[-1:])
        while one.engine.busy:
            checked_step(one)
    for name in ("a", "b"):
        assert untimed(rig.result(name)) == untimed(plain.result(name))


def test_a_cancelled_answer_keeps_what_was_told() -> None:
    rig = rig_of()
    running(rig)
    told = [token for delta in rig.deltas("a") for token in delta.ids]
    rig.engine.cancel("a")
    while rig.engine.busy:
        checked_step(rig)
    result = rig.result("a")
    assert result.finish_reason == "cancelled"
    assert list(result.token_ids) == told
    assert rig.engine.cache.entries[0].ids.tolist() == [*b"hello", *told[:-1]]


def test_a_dropped_conversation_leaves_nothing() -> None:
    rig = rig_of()
    running(rig)
    rig.engine.drop("chat")
    rig.engine.validate(rig.backend.length)
    while rig.engine.busy:
        checked_step(rig)
    assert not rig.engine.cache.entries
    assert all(rig.backend.length(number) == 0 for number in range(8))


def test_rates_are_those_of_whole_steps() -> None:
    """A step that was launched ahead lasts from one look at the clock to the same one a step later;
    the first has no such time.
    """
    rig = rig_of()
    clock = rig.clock
    forward = rig.backend.forward

    def slow(rows: Any) -> Any:
        clock.now += 0.25 if rows[0].follows else 1.0  # type: ignore[attr-defined]  # a Clock
        return forward(rows)

    rig.backend.forward = slow  # type: ignore[method-assign]  # timed
    run(rig, ask("a", b"hello", 20))
    assert rig.engine.stats.decode_step_ms == pytest.approx(250, rel=0.01)


# ---- everything at once

SAMPLINGS = [GREEDY, WARM, NUCLEUS, PENALTIES]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_answers_are_those_of_an_engine_that_waits(data: st.DataObject) -> None:
    """Random questions that come, stop and go on while others run, on backends of all kinds that
    choose wrongly now and then.
    """
    draw = data.draw
    kind = draw(st.sampled_from([{}, {"window": 6}, {"recurrent": True}, {"max_sequences": 2}]))
    wrong = frozenset(draw(st.sets(st.integers(0, 60), max_size=8)))
    config = EngineConfig(speculate=draw(st.booleans()))
    rigs = [
        rig_of(most, config, vocab_size=300, faults=faults, **kind)
        for most, faults in ((0, Faults()), (MOST, Faults(wrong_choices=wrong)))
    ]
    asked = [
        ask(
            f"q{number}",
            draw(st.binary(min_size=1, max_size=20)) * draw(st.integers(1, 3)),
            draw(st.integers(1, 25)),
            sampling=draw(st.sampled_from(SAMPLINGS)),
            conversation=draw(st.sampled_from(["one", "two", ""])),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    pauses = [draw(st.integers(0, 6)) for _ in asked]
    for rig in rigs:
        for request, pause in zip(asked, pauses, strict=True):
            rig.engine.submit(request)
            for _ in range(pause):
                if rig.engine.busy:
                    checked_step(rig)
        while rig.engine.busy:
            checked_step(rig)
        assert not [event for event in rig.events if isinstance(event, Failed)]
    for request in asked:
        one, other = (rig.result(request.request_id) for rig in rigs)
        assert one.token_ids == other.token_ids
        assert (one.text, one.finish_reason) == (other.text, other.finish_reason)


# ---- rows that follow


def test_a_row_follows_only_where_the_backend_can_choose() -> None:
    able, unable = (scripted_backend(max_choice=most).facts for most in (MOST, 0))
    row = Row(0, 3, (CHOSEN,), True, follows=True)
    check_rows(able, [row], [3])
    for facts, wrong in (
        (unable, row),
        (able, dataclasses.replace(row, ids=(4,))),
        (able, dataclasses.replace(row, ids=(CHOSEN, CHOSEN))),
        (able, dataclasses.replace(row, follows=False)),
    ):
        with pytest.raises(ValueError, match="sequence 0"):
            check_rows(facts, [wrong], [3])
