"""Laws of guessing: what is found, and what wrong guesses may cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafts import (
    CREDIT_PER_STEP,
    FIRST_CREDIT,
    LENGTHS,
    LONG_MATCH,
    SHORT_MATCH,
    Drafter,
    Runs,
)
from engine.rates import Rates

few_tokens = st.lists(st.integers(0, 2), max_size=60)
PASSAGE = list(range(100, 160))


def free(_drafted: int) -> float:
    return 0.0


def ended_before(ids: Sequence[int], length: int) -> int | None:
    """By looking everywhere."""
    run = ids[-length:]
    ends = [end for end in range(length, len(ids)) if ids[end - length : end] == run]
    return ends[-1] if ends and len(ids) >= length else None


@given(few_tokens, st.integers(1, 5), st.integers(1, 7))
def test_a_run_is_found_where_it_ended_last(ids: list[int], length: int, step: int) -> None:
    runs = Runs(length)
    for end in range(0, len(ids) + 1, step):
        assert runs.last(ids[:end]) == ended_before(ids[:end], length)


@given(st.lists(st.integers(0, 1), max_size=80), st.integers(0, 20), st.sets(st.integers(0, 1)))
def test_a_draft_is_what_followed(ids: list[int], most: int, ends: set[int]) -> None:
    draft = Drafter().draft(ids, most, ends, free)
    assert len(draft) in (0, *LENGTHS)
    assert len(draft) <= most
    assert ends.isdisjoint(draft)
    place = ended_before(ids, LONG_MATCH)
    if place is None:
        assert draft == ()
    else:
        longer = list(ids)
        for token in draft:  # the same period goes on
            assert token == longer[place]
            longer.append(token)
            place += 1


def test_only_a_long_match_is_trusted_until_guesses_came_true() -> None:
    drafter = Drafter()
    short = [*PASSAGE, 1, *PASSAGE[:SHORT_MATCH]]
    assert drafter.draft(short, 15, (), free) == ()
    long = [*short, *PASSAGE[SHORT_MATCH:LONG_MATCH]]
    assert drafter.draft(long, 15, (), free) == tuple(PASSAGE[LONG_MATCH:][:15])
    for _ in range(3):
        drafter.learn(15, 15, 0.0)
    other = [*long, 2, *PASSAGE[30 : 30 + SHORT_MATCH]]
    assert drafter.draft(other, 3, (), free) == tuple(PASSAGE[30 + SHORT_MATCH :][:3])
    for _ in range(3):
        drafter.learn(3, 0, 0.0)
    assert drafter.draft([*other, 3, *PASSAGE[40:43]], 3, (), free) == ()


def test_the_end_of_a_turn_is_never_guessed() -> None:
    ids = [*PASSAGE[:LONG_MATCH], 7, 7, 7, 9, *PASSAGE[:LONG_MATCH]]
    assert Drafter().draft(ids, 15, {9}, free) == (7, 7, 7)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 15)), max_size=200),
    st.lists(st.floats(0.0, 30.0), min_size=3, max_size=3),
)
def test_however_guesses_turn_out_little_time_is_lost(
    steps: list[tuple[bool, int]], costs: list[float]
) -> None:
    """Against writing the same tokens one by one."""
    cost = dict(zip(LENGTHS, costs, strict=True))
    drafter, ids = Drafter(), [5] * 20
    lost = 0.0
    plain = 0
    for finds, true in steps:
        drafted = len(drafter.draft(ids, 15 if finds else 0, (), cost.__getitem__))
        accepted = min(true, drafted)
        drafter.learn(drafted, accepted, cost[drafted] if drafted else 0.0)
        lost += cost[drafted] - accepted if drafted else 0.0
        plain += not drafted
        assert lost <= FIRST_CREDIT + CREDIT_PER_STEP * plain + 1e-6


def test_drafts_grow_while_they_come_true_and_are_tried_again_after_they_did_not() -> None:
    cost = {3: 1.5, 7: 2.7, 15: 5.3}.__getitem__
    drafter, ids = Drafter(), [5] * 20
    lengths = []
    for _ in range(4):
        lengths.append(len(drafter.draft(ids, 15, (), cost)))
        drafter.learn(lengths[-1], lengths[-1], cost(lengths[-1]))
    assert lengths == [7, 15, 15, 15]
    tries = 0
    while tries < 9 and (drafted := len(drafter.draft(ids, 15, (), cost))):
        drafter.learn(drafted, 0, cost(drafted))
        tries += 1
    assert 1 <= tries <= 6
    pauses = 0
    while pauses < 500 and not drafter.draft(ids, 15, (), cost):
        drafter.learn(0, 0, 0.0)
        pauses += 1
    assert 1 <= pauses < 500


def test_the_cost_of_a_draft_is_measured_and_forgotten() -> None:
    rates = Rates()
    assert rates.draft_steps(3) == math.inf
    rates.record(0, 100, 0, 1.0)
    rates.record(1, 0, 0, 0.05)
    assert rates.draft_steps(3) == pytest.approx(3 * 0.01 / 0.05)
    rates.record(1, 0, 0, 0.2, drafted=3)
    assert rates.draft_steps(3) == pytest.approx(3.0)
    rates.record(1, 0, 0, 0.1, drafted=3)
    assert rates.draft_steps(3) == pytest.approx(1.0)
    assert rates.decode_step_s == 0.05
    for _ in range(100):
        rates.record(1, 0, 0, 0.05)
    assert rates.draft_steps(3) < 0.7


def test_a_step_that_was_held_up_changes_the_cost_little() -> None:
    rates = Rates()
    for _ in range(5):
        rates.record(1, 0, 0, 0.05)
        rates.record(1, 0, 0, 0.1, drafted=3)
    rates.record(1, 0, 0, 0.2)
    assert rates.draft_steps(3) == pytest.approx(1.0, abs=0.3)
    rates.record(1, 0, 0, 0.4, drafted=3)
    assert rates.draft_steps(3) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("length", [0, 1, LONG_MATCH, LONG_MATCH + 1])
def test_short_prompts_have_nothing_to_guess_from(length: int) -> None:
    assert Drafter().draft(PASSAGE[:length], 15, (), free) == ()
