"""What a request gets from the engine: events, ends, errors, numbers, its place in the queue."""

from __future__ import annotations

import dataclasses

import pytest

from engine.backends.base import Row
from engine.backends.scripted import Faults, scripted_backend
from engine.backends.scripted_vocabulary import (
    END,
    END_OF_TURN,
    THINK_CLOSE,
    VOCAB_SIZE,
    ScriptedVocabulary,
)
from engine.config import EngineConfig
from engine.events import Delta, Failed, Finished, PromptProgress, Started
from engine.request import Limits, Part, Priority, Request, Sampling
from tests.engine.engine_runs import GREEDY, Clock, Rig, ask, cold

PROMPT = tuple(b"a prompt of some length")


def scripted(*answers: bytes | list[int]) -> Rig:
    return Rig(scripted_backend(script=[list(answer) for answer in answers]))


# ---- events and text


def test_events_come_in_order_and_join_to_the_result() -> None:
    rig = scripted("Grüße 🔥".encode())
    result = rig.run(ask("r", PROMPT, 40))[0]
    kinds = [type(event) for event in rig.events]
    assert kinds[:2] == [Started, PromptProgress]
    assert set(kinds[2:-1]) == {Delta}
    assert kinds[-1] is Finished
    deltas = rig.deltas("r")
    assert "".join(delta.text for delta in deltas) == result.text == "Grüße 🔥"
    assert tuple(i for delta in deltas for i in delta.ids) == result.token_ids
    assert result.token_ids == (*"Grüße 🔥".encode(), END)
    assert result.prompt_ids == PROMPT


def test_what_a_prompt_reuses_is_told_before_anything_is_computed() -> None:
    rig = Rig()
    rig.run(ask("1", PROMPT))
    computed = rig.backend.forwarded_tokens
    rig.engine.submit(ask("2", [*PROMPT[:9], *[7] * 500]))
    assert rig.step() == [Started("2", 509, 9, 0)]
    assert rig.backend.forwarded_tokens == computed
    assert isinstance(rig.step()[0], PromptProgress)


@pytest.mark.parametrize("end", [END, END_OF_TURN])
def test_any_end_token_ends_the_turn_and_is_no_text(end: int) -> None:
    result = scripted([*b"yes", end, *b"no"]).run(ask("r", PROMPT))[0]
    assert (result.text, result.finish_reason) == ("yes", "stop")
    assert result.token_ids[-1] == end
    assert result.usage.completion_tokens == 4


def test_a_stop_string_over_several_tokens_is_never_shown() -> None:
    rig = scripted(b"one two\nUser: hi")
    result = rig.run(ask("r", PROMPT, 40, stop=("\nUser:", "zzz")))[0]
    assert (result.text, result.finish_reason) == ("one two", "stop")
    assert result.stop_string == "\nUser:"
    assert "".join(delta.text for delta in rig.deltas("r")) == "one two"
    assert result.token_ids == tuple(b"one two\nUser:")


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_length_limit_is_exact_and_shows_what_was_held_back(limit: int) -> None:
    result = scripted(b"abcdefgh").run(ask("r", PROMPT, limit, stop=("abcdefgX",)))[0]
    assert (result.text, result.finish_reason) == ("abcdefgh"[:limit], "length")
    assert result.usage.completion_tokens == limit


def test_with_no_tokens_allowed_only_the_prompt_is_read() -> None:
    rig = Rig()
    result = rig.run(ask("r", PROMPT, 0))[0]
    assert (result.text, result.token_ids, result.finish_reason) == ("", (), "length")
    assert rig.run(ask("s", (*PROMPT, 1)))[0].usage.reused_tokens == len(PROMPT)


def test_a_weighing_tells_the_difference_of_two_logits() -> None:
    row = scripted_backend().forward([Row(0, 0, PROMPT, True)]).row(0)
    asked = dataclasses.replace(ask("r", PROMPT, 3), weighs=(3, 5))
    assert Rig().run(asked)[0].margin == pytest.approx(float(row[3] - row[5]))
    assert Rig().run(ask("r", PROMPT, 3))[0].margin is None


@pytest.mark.parametrize("left", [1, 2, 5])
def test_a_full_context_ends_the_answer(left: int) -> None:
    rig = Rig(scripted_backend(context=len(PROMPT) + left))
    request = dataclasses.replace(ask("r", PROMPT), limits=Limits(None))
    result = rig.run(request)[0]
    assert result.finish_reason == "context"
    assert result.usage.completion_tokens == left


def test_reasoning_is_split_off_when_the_prompt_opened_the_block() -> None:
    rig = scripted([*b"plan", THINK_CLOSE, *b"yes"])
    result = rig.run(dataclasses.replace(ask("r", PROMPT, 20), thinking=True))[0]
    assert (result.text, result.reasoning) == ("yes", "plan")
    assert not result.reasoning_unfinished
    unfinished = scripted(b"plan").run(dataclasses.replace(ask("r", PROMPT, 20), thinking=True))[0]
    assert (unfinished.text, unfinished.reasoning) == ("", "plan")
    assert unfinished.reasoning_unfinished


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("cut", range(len("aé🔥b".encode())))
def test_an_answer_cut_inside_a_character_goes_on_with_it(cut: int, thinking: bool) -> None:
    """The half is not shown; the answer that goes on shows the whole."""
    whole = "aé🔥b".encode()
    rig = scripted(whole, whole[cut:])
    first = dataclasses.replace(ask("1", PROMPT, cut), thinking=thinking)
    begun = rig.run(first)[0]
    rest = rig.run(
        dataclasses.replace(first, request_id="2", ids=(*PROMPT, *whole[:cut]), limits=Limits())
    )[0]
    assert begun.text + rest.text == ("" if thinking else "aé🔥b")
    assert begun.reasoning + rest.reasoning == ("aé🔥b" if thinking else "")
    for name, result in (("1", begun), ("2", rest)):
        shown = rig.deltas(name)
        assert "".join(delta.text for delta in shown) == result.text
        assert "".join(delta.reasoning for delta in shown) == result.reasoning


# ---- numbers


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("shared", [0, 1, 10, 22, 23, 30, 31])
def test_a_turn_computes_what_no_kept_sequence_begins_with(least: int, shared: int) -> None:
    rig = Rig(scripted_backend(min_recompute=least))
    first = rig.run(ask("1", PROMPT, 9))[0]
    forwarded = (*PROMPT, *first.token_ids[:-1])
    prompt = (*forwarded[:shared], *[200] * 5)
    usage = rig.run(ask("2", prompt))[0].usage
    assert usage.computed_tokens == len(prompt) - shared
    again = rig.run(ask("3", prompt))[0].usage
    assert again.computed_tokens == least


def test_tokens_from_a_parked_state_count_as_restored() -> None:
    rig = Rig()
    first = rig.run(ask("1", PROMPT))[0]
    rig.run(ask("2", b"something else", conversation="other"))
    usage = rig.run(ask("3", (*PROMPT, *first.token_ids[:3], 5)))[0].usage
    assert (usage.reused_tokens, usage.restored_tokens) == (0, len(PROMPT) + 3)
    assert usage.computed_tokens == 1


def test_timings_follow_the_clock() -> None:
    rig = Rig(scripted_backend(script=[b"abc"]), clock=Clock(per_call=0.001))
    timings = rig.run(ask("r", PROMPT, 3))[0].timings
    assert timings.first_token_ms > timings.prefill_ms > 0
    assert timings.decode_ms > 0
    assert timings.decode_tokens_per_s == pytest.approx(2 / timings.decode_ms * 1000)


def test_progress_counts_reused_tokens_and_ends_at_the_prompts_length() -> None:
    rig = Rig(clock=Clock(per_call=0.001))
    rig.run(ask("1", range(100), 2))
    rig.events.clear()
    rig.run(ask("2", [*range(100), *[7] * 900], 1))
    told = [event for event in rig.events if isinstance(event, PromptProgress)]
    assert [event.total for event in told] == [1000] * len(told)
    assert [event.done for event in told] == sorted({event.done for event in told})
    assert told[0].done > 100
    assert told[-1].done == 1000
    assert all(event.tokens_per_s > 0 for event in told)


def test_an_equal_seed_draws_equal_tokens_and_another_one_others() -> None:
    warm = Sampling(seed=11, temperature=2.0, top_k=0, top_p=1.0, min_p=0.0)
    request = ask("r", PROMPT, 20, sampling=warm)
    assert cold(request) == cold(request)
    assert cold(request) != cold(dataclasses.replace(request, sampling=Sampling(seed=12)))


def test_penalties_look_back_on_prompt_and_answer() -> None:
    once = Sampling(temperature=0.0, presence_penalty=100.0, repeat_last_n=-1)
    ids = Rig().run(ask("r", PROMPT, 60, sampling=once))[0].token_ids
    assert len(set(ids)) == len(ids)
    assert not set(ids) & set(PROMPT)


def test_reuse_that_breaks_is_explained() -> None:
    rig = Rig()
    rig.run(ask("1", b"system. hello"))
    request = dataclasses.replace(
        ask("2", b"system. hullo"),
        parts=(Part(0, "system prompt"), Part(8, "message 1 (user)"), Part(12, "late")),
    )
    broken = rig.run(request)[0].reuse_break
    assert broken is not None
    assert (broken.position, broken.kept_id, broken.new_id) == (9, ord("e"), ord("u"))
    assert broken.part == "message 1 (user)"


def test_going_on_and_regenerating_are_no_broken_reuse() -> None:
    rig = Rig()
    first = rig.run(ask("1", PROMPT, 5))[0]
    assert first.reuse_break is None
    assert rig.run(ask("2", PROMPT, 5, sampling=Sampling(seed=3)))[0].reuse_break is None
    assert rig.run(ask("3", (*PROMPT, *first.token_ids, 9)))[0].reuse_break is None
    assert rig.run(ask("4", b"zzz", conversation="new"))[0].reuse_break is None


# ---- refusals and faults


BAD = [
    (ask("r", ()), "usage"),
    (ask("r", [VOCAB_SIZE]), "usage"),
    (ask("r", [-1]), "usage"),
    (ask("r", [1] * 64), "context"),
    (ask("r", [1] * 900), "context"),
    (ask("r", PROMPT, -1), "usage"),
    (ask("r", PROMPT, sampling=Sampling(temperature=-0.1)), "usage"),
    (ask("r", PROMPT, sampling=Sampling(temperature=float("nan"))), "usage"),
    (ask("r", PROMPT, sampling=Sampling(repeat_penalty=0.0)), "usage"),
    (ask("r", PROMPT, sampling=Sampling(repeat_last_n=-2)), "usage"),
    (ask("r", PROMPT, sampling=Sampling(logit_bias=((999, 1.0),))), "usage"),
]


@pytest.mark.parametrize(("request_", "code"), BAD)
def test_what_cannot_run_fails_in_the_next_step_and_the_next_request_works(
    request_: Request, code: str
) -> None:
    rig = Rig(scripted_backend(context=64))
    rig.engine.submit(request_)
    assert rig.engine.busy
    (event,) = rig.step()
    assert isinstance(event, Failed)
    assert event.cause.code == code
    assert event.cause.title
    assert event.cause.next_step
    assert rig.run(ask("next", PROMPT))[0].token_ids == cold(ask("next", PROMPT))


def test_a_prompt_one_short_of_the_context_gets_one_token() -> None:
    assert len(Rig(scripted_backend(context=64)).run(ask("r", [1] * 63))[0].token_ids) == 1


def test_scores_that_are_not_finite_end_only_their_own_turn() -> None:
    faults = Faults(nan_at=frozenset({4}), nan_sequences=frozenset({0}))
    rig = Rig(scripted_backend(faults=faults))
    rig.engine.submit(ask("a", PROMPT, conversation="a"))
    rig.engine.submit(ask("b", b"other", conversation="b"))
    rig.drain()
    failed = rig.failure("a")
    assert failed.result is not None
    assert failed.result.finish_reason == "error"
    assert 0 < failed.result.usage.completion_tokens < 8
    assert failed.result.token_ids == cold(ask("a", PROMPT))[: len(failed.result.token_ids)]
    assert rig.result("b").token_ids == cold(ask("b", b"other"))
    assert [entry.conversation for entry in rig.engine.cache.entries] == ["b"]


@pytest.mark.parametrize(
    ("error", "code"), [(MemoryError(), "memory"), (RuntimeError("decode failed"), "failed")]
)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_broken_step_keeps_what_was_written_before_it(
    error: Exception, code: str, at: int
) -> None:
    rig = Rig(scripted_backend(faults=Faults(raise_at={at: error})))
    rig.engine.submit(ask("r", PROMPT))
    rig.drain()
    assert rig.failure("r").cause.code == code
    usage = rig.run(ask("again", PROMPT))[0].usage
    assert usage.reused_tokens == (len(PROMPT) - 1 if at else 0)
    assert rig.result("again").token_ids == cold(ask("again", PROMPT))


def test_without_room_for_one_sequence_the_request_fails_with_numbers() -> None:
    rig = Rig(scripted_backend(faults=Faults(room_tokens=30)))
    rig.engine.submit(ask("r", range(200)))
    rig.drain()
    cause = rig.failure("r").cause
    assert cause.code == "memory"
    assert "4096" in cause.text
    assert rig.run(ask("small", b"short"))[0].token_ids == cold(ask("small", b"short"))


def test_padded_output_rows_are_never_sampled() -> None:
    rig = Rig(scripted_backend(faults=Faults(padded_rows=12)))
    for sampling in (GREEDY, Sampling(top_k=0), Sampling(temperature=5.0, min_p=0.0)):
        ids = rig.run(ask(str(sampling), PROMPT, 30, sampling=sampling))[0].token_ids
        assert max(ids) < VOCAB_SIZE


# ---- who runs


def test_a_cancelled_request_ends_in_the_next_step_and_stays_reusable() -> None:
    rig = Rig(config=EngineConfig(chunk=128))
    rig.engine.submit(ask("r", [3] * 1000))
    for _ in range(3):
        rig.step()
    rig.engine.cancel("r")
    events = rig.step()
    (finished,) = events
    assert isinstance(finished, Finished)
    assert finished.result.finish_reason == "cancelled"
    usage = finished.result.usage
    assert usage.prompt_tokens == usage.computed_tokens == 256
    assert not rig.engine.busy
    assert rig.run(ask("again", [3] * 1000))[0].usage.reused_tokens == 256


def test_cancelling_what_waits_or_is_unknown_does_no_harm() -> None:
    rig = Rig()
    rig.engine.submit(ask("r", PROMPT))
    rig.engine.cancel("r")
    rig.engine.cancel("nobody")
    rig.drain()
    assert rig.result("r").finish_reason == "cancelled"
    assert rig.result("r").usage.prompt_tokens == 0


def test_several_answers_advance_in_one_step() -> None:
    rig = Rig()
    requests = [ask(name, (*PROMPT, ord(name)), 20, conversation=name) for name in "abc"]
    rig.run(*requests)
    assert max(len(rows) for rows in rig.backend.forwards) == 3
    for request in requests:
        assert rig.result(request.request_id).token_ids == cold(request)


def test_background_work_yields_at_once_and_goes_on_afterwards() -> None:
    rig = Rig(config=EngineConfig(chunk=128))
    title = dataclasses.replace(
        ask("title", [4] * 900, 5, conversation=""), priority=Priority.BACKGROUND
    )
    rig.engine.submit(title)
    rig.step()
    rig.step()
    rig.engine.submit(ask("chat", PROMPT, 6))
    while not any(isinstance(e, Finished) and e.request_id == "chat" for e in rig.events):
        events = rig.step()
        assert {event.request_id for event in events} == {"chat"}
        assert len(rig.backend.forwards[-1]) == 1
    rig.drain()
    assert rig.result("title").token_ids == cold(title)
    assert rig.result("title").usage.computed_tokens == 900


def test_a_person_is_served_before_variants_that_fill_the_engine() -> None:
    rig = Rig(scripted_backend(max_sequences=3))
    for name in "abcd":
        variant = ask(name, (*PROMPT, ord(name)), 50, conversation=name)
        rig.engine.submit(dataclasses.replace(variant, priority=Priority.VARIANT))
    for _ in range(5):
        rig.step()
    rig.engine.submit(ask("person", PROMPT, 3))
    for _ in range(4):
        rig.step()
    assert rig.result("person").token_ids == cold(ask("person", PROMPT, 3))
    rig.drain()


def test_a_side_job_does_not_disturb_the_chat() -> None:
    rig = Rig()
    first = rig.run(ask("1", range(200), 9))[0]
    history = (*range(200), *first.token_ids)
    job = Request("title", (*history, 1, 2, 3), GREEDY, Limits(4), Priority.BACKGROUND)
    usage = rig.run(job)[0].usage
    assert usage.computed_tokens == 4
    assert len(rig.engine.cache.entries) == 1
    usage = rig.run(ask("2", (*history, 5, 6)))[0].usage
    assert usage.computed_tokens == 3


def test_only_working_sequences_are_live_and_the_last_conversation_stays() -> None:
    rig = Rig()
    rig.run(ask("1", PROMPT, conversation="a"))
    rig.run(ask("2", b"other", conversation="b"))
    assert (rig.engine.stats.kept_live, rig.engine.stats.kept_parked) == (1, 1)
    assert rig.engine.stats.kv_bytes_parked > 0
    rig.engine.submit(ask("3", b"third", 30, conversation="c"))
    rig.step()
    rig.step()
    assert (rig.engine.stats.kept_live, rig.engine.stats.kept_parked) == (0, 2)
    rig.drain()


# ---- kept sequences


def rewrite(name: str, ids: tuple[int, ...], exact: int) -> Request:
    return dataclasses.replace(
        ask(name, ids), replaces=True, exact_prefix=exact, priority=Priority.BACKGROUND
    )


def test_a_rewritten_history_takes_the_place_of_the_sampled_one() -> None:
    rig = Rig(scripted_backend(min_recompute=2))
    first = rig.run(ask("1", PROMPT, 9))[0]
    rewritten = (*PROMPT, *first.token_ids[4:])
    result = rig.run(rewrite("2", rewritten, len(PROMPT)))[0]
    assert (result.text, result.token_ids, result.finish_reason) == ("", (), "stop")
    found = result.usage.reused_tokens + result.usage.restored_tokens
    assert found == len(PROMPT)
    (entry,) = rig.engine.cache.entries
    assert tuple(entry.ids) == rewritten
    usage = rig.run(ask("3", (*rewritten, 1, 2, 3)))[0].usage
    assert (usage.reused_tokens, usage.computed_tokens) == (len(rewritten), 3)


def test_a_rewrite_computes_everything_after_the_exact_prefix_again() -> None:
    rig = Rig(scripted_backend(min_recompute=2))
    first = rig.run(ask("1", PROMPT, 9))[0]
    history = (*PROMPT, *first.token_ids[:-1])
    for exact in (len(PROMPT), 10, 0):
        usage = rig.run(rewrite(f"rewrite {exact}", history, exact))[0].usage
        assert usage.computed_tokens == len(history) - exact


@pytest.mark.parametrize("how", ["cancel", "next turn", "fault"])
def test_a_rewrite_that_does_not_end_leaves_no_trace(how: str) -> None:
    rig = Rig(config=EngineConfig(chunk=128))
    first = rig.run(ask("1", PROMPT, 9))[0]
    rig.engine.submit(rewrite("2", (*PROMPT, *[5] * 700), 0))
    rig.step()
    if how == "cancel":
        rig.engine.cancel("2")
    if how == "fault":
        rig.backend.faults = Faults(raise_at={len(rig.backend.forwards): RuntimeError()})
    history = (*PROMPT, *first.token_ids[:-1])
    if how != "next turn":
        rig.drain()
        (entry,) = rig.engine.cache.entries
        assert tuple(entry.ids) == history
    usage = rig.run(ask("3", (*history, 9)))[0].usage
    assert usage.computed_tokens == 1
    if how == "next turn":
        assert rig.result("2").finish_reason == "cancelled"


def test_dropping_a_conversation_frees_it_at_once_and_ends_what_runs() -> None:
    rig = Rig()
    rig.run(ask("1", PROMPT), ask("2", b"other one", conversation="other"))
    rig.engine.submit(ask("3", (*PROMPT, 1, 2), 50))
    rig.step()
    rig.step()
    rig.engine.drop("chat")
    rig.engine.validate(rig.backend.length)
    assert [entry.conversation for entry in rig.engine.cache.entries] == ["other"]
    rig.drain()
    assert rig.result("3").finish_reason == "cancelled"
    usage = rig.run(ask("4", PROMPT))[0].usage
    assert usage.computed_tokens == len(PROMPT)


@pytest.mark.parametrize("live", [True, False])
def test_a_saved_state_goes_on_in_another_engine(live: bool) -> None:
    rig = Rig(config=EngineConfig(fingerprint="model 1"))
    first = rig.run(ask("1", PROMPT))[0]
    if not live:
        rig.run(ask("2", b"other", conversation="other"))
    saved = rig.engine.export("chat")
    rig.engine.validate(rig.backend.length)
    assert saved is not None
    assert saved.ids == (*PROMPT, *first.token_ids[:-1])
    assert rig.engine.export("unknown") is None

    new = Rig(config=EngineConfig(fingerprint="model 1"))
    assert not new.engine.adopt("chat", saved.ids, saved.parked, "model 2")
    assert not new.engine.adopt("chat", saved.ids[:-1], saved.parked, "model 1")
    assert new.engine.adopt("chat", saved.ids, saved.parked, saved.fingerprint)
    request = ask("3", (*saved.ids, 1, 2))
    result = new.run(request)[0]
    assert result.usage.restored_tokens == len(saved.ids)
    assert result.token_ids == cold(request)


def test_owners_do_not_share_and_jobs_without_a_conversation_keep_nothing() -> None:
    rig = Rig()
    rig.run(ask("1", PROMPT))
    foreign = dataclasses.replace(ask("2", PROMPT, conversation="theirs"), owner="somebody")
    assert rig.run(foreign)[0].usage.computed_tokens == len(PROMPT)
    rig.run(ask("3", b"nothing kept", conversation=""))
    assert {entry.conversation for entry in rig.engine.cache.entries} == {"chat", "theirs"}


def test_parked_states_stay_within_the_budget_and_the_open_conversation_stays() -> None:
    rig = Rig(config=EngineConfig(cache_bytes=2000))
    for number in range(12):
        rig.run(ask(str(number), range(150), conversation=f"chat {number}"))
        assert rig.engine.cache.parked_bytes <= 2000
    names = [entry.conversation for entry in rig.engine.cache.entries]
    assert names[-1] == "chat 11"
    assert names == sorted(names, key=lambda name: int(name[5:]))
    assert len(names) < 12


@pytest.mark.parametrize("window", [8, None])
def test_restore_points_of_live_states_are_paid_from_the_budget(window: int | None) -> None:
    """Each turn of the open conversation adds one; what others have parked gives way."""
    backend = scripted_backend(min_recompute=2, window=window, recurrent=window is None)
    rig = Rig(backend, config=EngineConfig(cache_bytes=1500))
    for name in "abc":
        rig.run(ask(name, range(40), conversation=name))
    ids, parked = tuple(PROMPT), []
    for turn in range(20):
        ids += (*rig.run(ask(str(turn), ids))[0].token_ids, *[turn] * 6)
        parked.append(rig.engine.stats.kept_parked)
    assert parked[0] == 3
    assert parked[-1] == 0
    assert parked == sorted(parked, reverse=True)
    points = rig.backend.room().bytes_parked
    assert rig.engine.stats.kv_bytes_parked == points > 1000


def test_prompts_are_marked_where_the_backend_needs_it() -> None:
    rig = Rig(scripted_backend(recurrent=True, min_recompute=2))
    rig.run(ask("1", PROMPT))
    names = [call[0] for call in rig.backend.calls]
    assert names[:3] == ["forward", "mark", "forward"]
    assert [len(rows[0].ids) for rows in rig.backend.forwards[:2]] == [len(PROMPT) - 2, 2]


def test_the_same_request_id_cannot_run_twice() -> None:
    rig = Rig()
    rig.engine.submit(ask("r", PROMPT))
    rig.engine.submit(ask("r", b"second"))
    rig.drain()
    assert rig.failure("r").cause.code == "usage"
    assert sum(isinstance(event, Finished) for event in rig.events) == 1


def test_a_vocabulary_without_thinking_tokens_splits_by_text() -> None:
    backend = scripted_backend(script=[list(b"<think>plan</think>yes")])
    rig = Rig(backend, vocabulary=ScriptedVocabulary(think_tokens=False))
    result = rig.run(ask("r", PROMPT, 40))[0]
    assert (result.text, result.reasoning) == ("yes", "plan")
