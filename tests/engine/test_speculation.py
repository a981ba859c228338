"""Drafts change the speed of an answer and nothing else.

The scripted backend's scores depend on every token before them, so an id, a count or a kept state
that a refused draft touched would differ from writing token by token.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.scripted import Faults, ScriptedBackend, scripted_backend
from engine.backends.scripted_vocabulary import END
from engine.config import EngineConfig
from engine.drafts import LENGTHS
from engine.events import Failed, Finished, Result
from engine.request import Limits, Request, Sampling
from engine.stats import EngineStats
from tests.engine.engine_runs import GREEDY, Clock, Rig, ask, checked_step, untimed

PLAIN = EngineConfig(speculate=False)
PASSAGE = bytes(range(100, 200))
COPY = ask("copy", b"say it again: " + PASSAGE, 200)
KINDS: dict[str, dict[str, Any]] = {
    "any length": {},
    "two left": {"min_recompute": 2},
    "window": {"window": 6, "min_recompute": 2},
    "recurrent": {"recurrent": True, "min_recompute": 2},
    "one sequence": {"max_sequences": 1},
    "small drafts": {"max_draft": 4},
}
kinds = pytest.mark.parametrize("kind", KINDS)


def rig_of(kind: str = "any length", config: EngineConfig | None = None, **options: Any) -> Rig:
    return Rig(scripted_backend(**KINDS[kind], **options), config or EngineConfig())


def run(rig: Rig, *requests: Request) -> list[Result]:
    for request in requests:
        rig.engine.submit(request)
    while rig.engine.busy:
        checked_step(rig)
    return [rig.result(request.request_id) for request in requests]


def drafted(backend: ScriptedBackend) -> list[tuple[int, ...]]:
    return [row.ids[1:] for rows in backend.forwards for row in rows if row.wants_all]


# ---- what is gained


@pytest.mark.parametrize("window", [None, 20])
def test_a_copied_passage_takes_few_steps(window: int | None) -> None:
    counts = []
    for config in (EngineConfig(), PLAIN):
        rig = rig_of(config=config, script=[[*PASSAGE]], window=window)
        result = run(rig, COPY)[0]
        assert result.token_ids == (*PASSAGE, END)
        counts.append(len(rig.backend.forwards))
    assert counts[1] > len(PASSAGE)
    assert counts[0] <= 20


def test_an_attached_text_of_an_earlier_turn_is_quoted_fast() -> None:
    rig = rig_of(script=[[1, 2, 3], [*PASSAGE]])
    first = run(rig, ask("1", b"keep this: " + PASSAGE))[0]
    before = len(rig.backend.forwards)
    prompt = (*first.prompt_ids, *first.token_ids, *b"and now?")
    assert run(rig, ask("2", prompt, 200))[0].token_ids == (*PASSAGE, END)
    assert len(rig.backend.forwards) - before <= 20


def test_the_numbers_tell_what_was_guessed_and_what_came_true() -> None:
    def numbers(rig: Rig) -> EngineStats:
        run(rig, COPY)
        return rig.engine.stats

    stats = numbers(rig_of(script=[[*PASSAGE]]))
    assert 80 < stats.accepted_tokens <= stats.drafted_tokens <= len(PASSAGE)
    off = numbers(rig_of(config=PLAIN, script=[[*PASSAGE]]))
    assert (off.drafted_tokens, off.accepted_tokens) == (0, 0)
    assert stats.computed_tokens == off.computed_tokens


# ---- where nothing is drafted


@pytest.mark.parametrize(
    "options", [{"recurrent": True}, {"max_draft": 0}, {"max_draft": 2}, {"window": 1}]
)
def test_nothing_is_drafted_where_it_could_not_be_taken_back(options: dict[str, Any]) -> None:
    rig = Rig(scripted_backend(script=[[*PASSAGE]], **options))
    assert run(rig, COPY)[0].token_ids == (*PASSAGE, END)
    assert drafted(rig.backend) == []


@pytest.mark.parametrize("exact", [True, False])
def test_a_chosen_seed_is_not_put_at_risk_by_rounding(exact: bool) -> None:
    rig = Rig(scripted_backend(script=[[*PASSAGE]]))
    rig.backend.facts = dataclasses.replace(rig.backend.facts, exact_batching=exact)
    rig = Rig(rig.backend)
    run(rig, dataclasses.replace(COPY, repeatable=True))
    assert bool(drafted(rig.backend)) is exact


def test_no_draft_stands_beside_a_prompt() -> None:
    """The scripted backend refuses it."""
    rig = Rig(scripted_backend(script=[[*PASSAGE], [1] * 50]), EngineConfig(chunk=4))
    rig.engine.submit(COPY)
    for _ in range(60):
        checked_step(rig)
    results = run(rig, ask("2", bytes(200), 20, conversation="other"))
    assert results[0].token_ids == (1,) * 20
    assert rig.result("copy").token_ids == (*PASSAGE, END)


def test_a_step_with_drafts_keeps_to_its_time() -> None:
    """Each look at the clock takes 40 ms, so a step of one token does, and one with drafts too."""
    for step_ms, most in ((1000.0, 15), (10.0, 3)):
        config = EngineConfig(step_ms_streaming=step_ms)
        rig = Rig(scripted_backend(script=[[*PASSAGE]]), config, clock=Clock(0.04))
        assert run(rig, COPY)[0].token_ids == (*PASSAGE, END)
        assert max(map(len, drafted(rig.backend))) == most


# ---- equal to writing token by token


@kinds
@pytest.mark.parametrize("wrong", [0, 1, 2, 3, 4, 14, 15, 16, 40])
def test_a_copy_that_leaves_the_passage_anywhere(kind: str, wrong: int) -> None:
    answer = [*PASSAGE[: 10 + wrong], 7, *PASSAGE[10 + wrong :]]
    plain = run(rig_of(kind, PLAIN, script=[answer]), COPY)[0]
    rig = rig_of(kind, script=[answer])
    assert untimed(run(rig, COPY)[0]) == untimed(plain)
    prompt = (*COPY.ids, *plain.token_ids, 1)
    assert run(rig, ask("again", prompt))[0].usage.computed_tokens == 2


@pytest.mark.parametrize("limit", range(8, 32))
@pytest.mark.parametrize("by", ["length", "context", "stop string"])
def test_an_answer_ends_at_the_same_token(limit: int, by: str) -> None:
    options: dict[str, Any] = {"script": [[*PASSAGE]]}
    limits = Limits(None)
    if by == "context":
        options["context"] = len(COPY.ids) + limit
    elif by == "length":
        limits = Limits(limit)
    else:
        limits = Limits(None, (bytes(PASSAGE[limit - 2 : limit]).decode("latin1"),))
    request = dataclasses.replace(COPY, limits=limits)
    one, other = rig_of(**options), rig_of(config=PLAIN, **options)
    assert untimed(run(one, request)[0]) == untimed(run(other, request)[0])
    kept, expected = one.engine.export("chat"), other.engine.export("chat")
    assert kept is not None
    assert expected is not None
    assert kept.ids == expected.ids
    assert kept.parked == expected.parked


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    seed=st.integers(0, 1 << 40),
    top_k=st.sampled_from([0, 1, 2, 40]),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.2]),
    typical_p=st.sampled_from([0.5, 1.0]),
    repeat_penalty=st.sampled_from([0.8, 1.0, 1.0, 1.3]),
    frequency_penalty=st.sampled_from([-0.2, 0.0, 0.0, 0.4]),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    repeat_last_n=st.sampled_from([-1, 0, 5, 64]),
)


@st.composite
def requests(draw: st.DrawFn, name: str = "r", conversation: str = "chat") -> Request:
    """Answers of very few different tokens, so that they repeat themselves and now and then end."""
    alphabet = b"abc"[: draw(st.integers(1, 3))]
    bias = [(token, 30.0) for token in alphabet]
    if draw(st.booleans()):
        bias.append((END, draw(st.sampled_from([26.0, 30.0]))))
    sampling = dataclasses.replace(draw(samplings), logit_bias=tuple(bias))
    length = draw(st.integers(1, 120))
    number = draw(st.integers(0, 1 << 60))
    ids = tuple(alphabet[(number >> i % 60) % len(alphabet)] for i in range(length))
    stop = draw(st.sampled_from([(), (), ("aab",), ("ca", "bbbb")]))
    limits = Limits(draw(st.integers(0, 80)), stop)
    return Request(name, ids, sampling, limits, conversation=conversation)


@settings(max_examples=300, deadline=None)
@given(requests(), st.sampled_from(sorted(KINDS)))
def test_with_any_settings(request_: Request, kind: str) -> None:
    one, other = rig_of(kind), rig_of(kind, PLAIN)
    result = run(one, request_)[0]
    plain = run(other, request_)[0]
    assert untimed(result) == untimed(plain)
    assert [d.text for d in one.deltas("r")] == [d.text for d in other.deltas("r")]
    follow = dataclasses.replace(request_, request_id="2", ids=(*request_.ids, *plain.token_ids, 1))
    assert untimed(run(one, follow)[0]) == untimed(run(other, follow)[0])


def test_such_answers_are_drafted_and_refused_often() -> None:
    """The tests above would prove nothing otherwise."""
    guessed = true = 0
    for seed in range(40):
        sampling = Sampling(seed=seed, logit_bias=((97, 30.0), (98, 30.0)))
        prompt = tuple(b"ab"[(seed * 0x9E3779B97F4A7C15 >> i % 60) & 1] for i in range(100))
        rig = rig_of()
        run(rig, ask("r", prompt, 60, sampling=sampling))
        guessed += rig.engine.stats.drafted_tokens
        true += rig.engine.stats.accepted_tokens
    assert guessed > 1000
    assert 100 < true < 0.8 * guessed


@settings(max_examples=100, deadline=None)
@given(
    st.tuples(*(requests(str(i), f"chat {i}") for i in range(3))),
    st.lists(st.integers(0, 30), min_size=3, max_size=3),
    st.sampled_from(["any length", "window", "one sequence", "small drafts"]),
    st.sampled_from([None, 260, 400]),
)
def test_beside_batch_mates_and_where_room_is_short(
    jobs: tuple[Request, ...], delays: list[int], kind: str, room: int | None
) -> None:
    rig = rig_of(kind, EngineConfig(chunk=16, micro_batch=16), faults=Faults(room_tokens=room))
    waiting = list(zip(jobs, delays, strict=True))
    while waiting or rig.engine.busy:
        for request, _ in [pair for pair in waiting if pair[1] <= 0]:
            rig.engine.submit(request)
        waiting = [(request, delay - 1) for request, delay in waiting if delay > 0]
        checked_step(rig)
    for request in jobs:
        alone = run(rig_of(config=PLAIN), request)[0]
        assert rig.result(request.request_id).token_ids == alone.token_ids
        assert rig.result(request.request_id).text == alone.text


@settings(max_examples=100, deadline=None)
@given(requests(), st.integers(0, 25), st.sampled_from(sorted(KINDS)))
def test_after_a_cancel_at_any_step(request_: Request, steps: int, kind: str) -> None:
    plain = run(rig_of(config=PLAIN), request_)[0]
    rig = rig_of(kind)
    rig.engine.submit(request_)
    for _ in range(steps):
        if rig.engine.busy:
            checked_step(rig)
    rig.engine.cancel("r")
    while rig.engine.busy:
        checked_step(rig)
    said = rig.result("r").token_ids
    assert said == plain.token_ids[: len(said)]
    follow = dataclasses.replace(request_, request_id="2", ids=(*request_.ids, *said, 1))
    expected = run(rig_of(config=PLAIN), follow)[0]
    assert run(rig, follow)[0].token_ids == expected.token_ids


@settings(max_examples=100, deadline=None)
@given(requests(), st.integers(0, 12), st.integers(0, 17), st.sampled_from(sorted(KINDS)))
def test_after_an_interruption_behind_any_token(
    request_: Request, call: int, written: int, kind: str
) -> None:
    plain = run(rig_of(config=PLAIN), request_)[0]
    rig = rig_of(kind, faults=Faults(interrupt_at={call: written}))
    assert run(rig, request_)[0].token_ids == plain.token_ids


@pytest.mark.parametrize("kind", ["any length", "window"])
def test_a_cancel_right_after_an_interruption_keeps_no_guess(kind: str) -> None:
    for call in range(1, 12):
        for written in range(8):
            faults = Faults(interrupt_at={call: written})
            rig = rig_of(kind, script=[[*PASSAGE]], faults=faults)
            rig.engine.submit(COPY)
            while len(rig.backend.forwards) <= call:
                checked_step(rig)
            rig.engine.cancel("copy")
            while rig.engine.busy:
                checked_step(rig)
            kept = rig.engine.export("chat")
            assert kept is not None
            said = rig.result("copy").token_ids
            assert kept.ids == (*COPY.ids, *said)[: len(kept.ids)]
            assert not said or len(kept.ids) >= len(COPY.ids) + len(said) - 1


def test_where_there_is_room_for_one_token_only_it_is_written_alone() -> None:
    room = Faults(room_tokens=len(COPY.ids) + len(PASSAGE))
    rig = rig_of(script=[[*PASSAGE]], faults=room)
    assert run(rig, COPY)[0].token_ids == (*PASSAGE, END)
    assert drafted(rig.backend)
    assert max(sum(len(row.ids) for row in rows) for rows in rig.backend.forwards[-2:]) == 1


@settings(max_examples=60, deadline=None)
@given(requests(), st.integers(1, 40), st.sampled_from(["any length", "window"]))
def test_scores_that_are_no_numbers_end_it_at_the_same_token(
    request_: Request, after: int, kind: str
) -> None:
    ends = []
    for config in (EngineConfig(), PLAIN):
        faults = Faults(nan_after=frozenset({len(request_.ids) + after}))
        rig = rig_of(kind, config, faults=faults)
        rig.engine.submit(request_)
        while rig.engine.busy:
            checked_step(rig)
        last = rig.events[-1]
        assert isinstance(last, Finished | Failed)
        result = last.result
        assert result is not None
        ends.append((type(last), untimed(result), rig.engine.cache.entries == ()))
    assert ends[0] == ends[1]


def test_a_broken_backend_ends_it_with_what_was_written_before() -> None:
    for call in range(2, 30):
        rig = rig_of(script=[[*PASSAGE]], faults=Faults(raise_at={call: OSError("gone")}))
        rig.engine.submit(COPY)
        while rig.engine.busy:
            checked_step(rig)
        last = rig.events[-1]
        assert isinstance(last, Finished | Failed)
        assert last.result is not None
        said = last.result.token_ids
        assert said == (*PASSAGE, END)[: len(said)]
        follow = ask("2", (*COPY.ids, *said[:5], 3), sampling=GREEDY)
        rig.backend.faults = Faults()
        assert len(run(rig, follow)[0].token_ids) > 0


def test_drafts_have_lengths_that_a_processor_likes() -> None:
    rig = rig_of(script=[[*PASSAGE]])
    run(rig, COPY)
    assert set(map(len, drafted(rig.backend))) <= set(LENGTHS)
