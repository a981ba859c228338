"""The engine over the paged backend: it answers as a fresh one, computes only what is new, and
lives in a pool that is too small for all that runs.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import pytest
import torch

from engine.backends.scripted_vocabulary import ScriptedVocabulary
from engine.config import EngineConfig
from engine.errors import OutOfMemory
from engine.events import Finished, Result
from engine.request import Priority, Request, Sampling
from tests.engine.engine_runs import Rig, ask
from tests.engine.paged_support import PagedRig, prompt
from tests.engine.tiny_decoders import WINDOWS, paged_backend

ENDLESS = Sampling(
    temperature=0.0, logit_bias=tuple((i, -math.inf) for i in ScriptedVocabulary().end_ids)
)

kinds = pytest.mark.parametrize("kind", WINDOWS)


def rig_of(
    kind: str,
    chunk: int = 512,
    cache_bytes: int = 1 << 30,
    speculate: bool = False,
    **changes: Any,
) -> PagedRig:
    backend = paged_backend(kind, **{"ctx": 512, "max_rows": 512, **changes})
    config = EngineConfig(
        chunk=chunk,
        micro_batch=min(chunk, 128),
        cache_bytes=cache_bytes,
        speculate=speculate,
    )
    return PagedRig(backend, config)


def cold(kind: str, request: Request) -> tuple[int, ...]:
    rig = rig_of(kind, cache_bytes=0)
    return rig.run(request)[0].token_ids


def found(result: Result) -> int:
    return result.usage.reused_tokens + result.usage.restored_tokens


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


@pytest.mark.parametrize("chunk", [4, 16, 64])
@kinds
def test_chunks_of_any_size_give_the_same_answer(kind: str, chunk: int) -> None:
    request = ask("r", prompt(150))
    assert rig_of(kind, chunk).run(request)[0].token_ids == cold(kind, request)


@kinds
def test_eight_requests_at_once_are_answered_as_alone(kind: str) -> None:
    requests = [ask(str(n), prompt(20 + 13 * n, n), 10, conversation=str(n)) for n in range(8)]
    results = rig_of(kind, chunk=32, max_sequences=9).run(*requests)
    for request, result in zip(requests, results, strict=True):
        assert result.token_ids == cold(kind, request)


class Conversation:
    """One chat whose every turn is compared with a fresh engine and with what was forwarded."""

    def __init__(self, kind: str, **changes: Any) -> None:
        self.kind = kind
        self.rig = rig_of(kind, **changes)
        self.forwarded: list[tuple[int, ...]] = []
        """What was written of every turn so far."""
        self.turns = 0

    def ask(self, ids: tuple[int, ...], tokens: int = 6, conversation: str = "chat") -> Result:
        self.turns += 1
        request = ask(str(self.turns), ids, tokens, conversation=conversation)
        result = self.rig.run(request)[0]
        assert result.token_ids == cold(self.kind, request)
        known = max((common(ids, old) for old in self.forwarded), default=0)
        expected = max(len(ids) - known, self.rig.backend.facts.min_recompute)
        if not self.rig.backend.facts.needs_marks:
            assert result.usage.computed_tokens == expected
        assert result.usage.computed_tokens >= expected
        assert result.usage.prompt_tokens == len(ids)
        self.forwarded.append(ids + result.token_ids[:-1])
        return result

    def stop(self, ids: tuple[int, ...], steps: int) -> tuple[int, ...]:
        """Cancel a turn after some steps; what was said until then."""
        self.turns += 1
        name = str(self.turns)
        self.rig.engine.submit(ask(name, ids, 50, sampling=ENDLESS))
        for _ in range(steps):
            self.rig.step()
        self.rig.engine.cancel(name)
        self.rig.drain()
        result = self.rig.result(name)
        assert result.finish_reason == "cancelled"
        read = result.usage.prompt_tokens
        said = ids + result.token_ids
        self.forwarded.append(said[: read + max(0, len(result.token_ids) - 1)])
        return result.token_ids


@kinds
def test_twenty_turns_with_edits_stops_and_other_chats(kind: str) -> None:
    chat = Conversation(kind)
    history = prompt(12)
    for number in range(20):
        question = history + prompt(7, seed=number)
        if number % 5 == 3:  # stopped while it answers
            said = chat.stop(question, 5 + number % 3)
            history = question + said
            continue
        result = chat.ask(question)
        if number % 5 == 1:  # asked again
            again = chat.ask(question)
            assert again.usage.computed_tokens == 1
        if number % 5 == 2:  # edited, then back to the first wording
            chat.ask(history + prompt(3, seed=number) + prompt(5, seed=90 + number))
            chat.ask(question + result.token_ids + prompt(2, seed=50))
        if number % 5 == 4:  # parked to be saved, then another chat
            assert chat.rig.engine.export("chat") is not None
            chat.ask(prompt(30, seed=70 + number), conversation="other")
            assert chat.rig.engine.stats.kept_parked > 0
        history = question + result.token_ids
    everything = sum(result.usage.prompt_tokens for result in results_of(chat.rig))
    computed = sum(result.usage.computed_tokens for result in results_of(chat.rig))
    assert computed < everything / (4 if kind == "full" else 2)


def results_of(rig: Rig) -> list[Result]:
    return [event.result for event in rig.events if isinstance(event, Finished)]


@kinds
def test_going_on_in_a_chat_of_a_window_computes_only_what_is_new(kind: str) -> None:
    chat = Conversation(kind)
    history = prompt(40)
    for number in range(6):
        result = chat.ask(history)
        assert number == 0 or result.usage.computed_tokens == 9 + 1
        again = chat.ask(history)
        assert again.usage.computed_tokens == 1
        history += result.token_ids + prompt(9, seed=number)


@kinds
def test_a_pool_for_little_more_than_one_request_serves_many(kind: str) -> None:
    """1.2 requests fit; the others wait, are parked, or are computed again."""
    changes: dict[str, Any] = {"ctx": 64, "max_rows": 64, "max_sequences": 4}
    whole = rig_of(kind, **changes).backend.pool_bytes  # type: ignore[attr-defined]
    small = next(
        rig
        for pool_bytes in range(whole // 8, whole, 512)
        if (rig := tightest(kind, pool_bytes, changes)) is not None
    )
    room = small.backend.room()
    assert 64 <= room.free_tokens <= 1.35 * 64
    requests = [ask(str(n), prompt(20 + n, n), 20, conversation=str(n % 5)) for n in range(12)]
    for request, result in zip(requests, small.run(*requests), strict=True):
        assert result.token_ids == cold(kind, request)
    assert small.engine.stats.kept_parked > 0
    for number in range(5):
        small.engine.drop(str(number))
    assert small.backend.room() == room


def tightest(kind: str, pool_bytes: int, changes: dict[str, Any]) -> PagedRig | None:
    try:
        return rig_of(kind, chunk=16, pool_bytes=pool_bytes, **changes)
    except OutOfMemory:
        return None


@kinds
def test_states_that_find_no_place_in_memory_are_computed_again(kind: str) -> None:
    rig = rig_of(kind, cache_bytes=0, max_sequences=2)
    requests = [ask(str(n), prompt(50, n), 8, conversation=str(n)) for n in range(4)]
    for _ in range(2):
        for request, result in zip(requests, rig.run(*requests), strict=True):
            assert result.token_ids == cold(kind, request)
        requests = [dataclasses.replace(r, request_id=r.request_id + "'") for r in requests]


@kinds
@pytest.mark.parametrize("largest", [24, 0])
def test_a_pass_that_is_too_large_for_the_memory_costs_that_turn_at_most(
    kind: str, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes of up to `largest` tokens fit: then nothing is lost at all."""
    rig = rig_of(kind, chunk=64)
    before = ask("before", prompt(20), 6, conversation="kept")
    said = rig.run(before)[0].token_ids
    decoder = rig.backend._decoder  # type: ignore[attr-defined]
    real = decoder.forward

    def limited(given: Any, *rest: Any) -> Any:
        if len(given.tokens) > largest:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(given, *rest)

    request = ask("large", prompt(60, 1), 6, conversation="large")
    with monkeypatch.context() as patch:
        patch.setattr(decoder, "forward", limited)
        rig.engine.submit(request)
        rig.drain()
    if largest:
        assert rig.result("large").token_ids == cold(kind, request)
    else:
        assert rig.failure("large").cause.code == "memory"
    after = ask("after", before.ids + said + prompt(5, 2), conversation="kept")
    result = rig.run(after)[0]
    assert result.token_ids == cold(kind, after)
    assert found(result) == len(before.ids + said) - 1


@kinds
def test_an_interruption_behind_any_layer_changes_no_answer(kind: str) -> None:
    requests = [ask(name, prompt(30, seed), 5, conversation=name) for seed, name in enumerate("ab")]
    expected = [cold(kind, request) for request in requests]
    for place in range(0, 24, 3):
        rig = rig_of(kind, chunk=16)
        decoder, calls = rig.backend._decoder, itertools.count()  # type: ignore[attr-defined]
        real = decoder.forward

        def interrupting(
            given: Any,
            pools: Any,
            is_stopped: Any,
            rig: Any = rig,
            real: Any = real,
            calls: Any = calls,
            place: int = place,
        ) -> Any:
            def asked() -> bool:
                if next(calls) == place:
                    rig.backend.interrupt()
                return bool(is_stopped())

            return real(given, pools, asked)

        decoder.forward = interrupting
        assert [result.token_ids for result in rig.run(*requests)] == expected


@kinds
def test_a_side_job_shares_the_chat_and_leaves_it_alone(kind: str) -> None:
    rig = rig_of(kind)
    first = rig.run(ask("1", prompt(40)))[0]
    history = prompt(40) + first.token_ids
    side = dataclasses.replace(
        ask("title", history + prompt(4, 9), 3, conversation=""), priority=Priority.BACKGROUND
    )
    results = rig.run(ask("2", history + prompt(6, 8), 10), side)
    for request_id, result in zip(("2", "title"), results, strict=True):
        assert found(result) >= (len(history) - 1 if request_id == "2" else 0)
    third = ask("3", history + prompt(6, 8) + results[0].token_ids + prompt(3, 7))
    result = rig.run(third)[0]
    assert result.token_ids == cold(kind, third)
    assert result.usage.computed_tokens == 3 + 1


@kinds
def test_drafts_change_no_answer(kind: str) -> None:
    """With three words to choose from, runs are soon repeated: some drafts come true."""
    few = Sampling(temperature=0.0, logit_bias=tuple((word, 50.0) for word in (10, 11, 12)))
    requests = [ask(str(n), prompt(20, n), 60, sampling=few, conversation=str(n)) for n in range(3)]
    rig = rig_of(kind, speculate=True, spare=16)
    results = rig.run(*requests)
    for request, result in zip(requests, results, strict=True):
        assert result.token_ids == cold(kind, request)
    stats = rig.engine.stats
    assert 0 < stats.accepted_tokens < stats.drafted_tokens
    again = [
        ask(f"{n}'", (*prompt(20, n), *result.token_ids, 5, 6, 7), 4, conversation=str(n))
        for n, result in enumerate(results)
    ]
    for request, result in zip(again, rig.run(*again), strict=True):
        assert result.token_ids == cold(kind, request)
        assert result.usage.computed_tokens == 3 + 1


@kinds
def test_conversations_that_rest_stay_in_the_pool_until_their_room_is_needed(kind: str) -> None:
    rig = rig_of(kind)
    first, second = (
        ask("1", prompt(100, 1), conversation="a"),
        ask("2", prompt(100, 2), conversation="b"),
    )
    (one,), (two,) = rig.run(first), rig.run(second)
    assert rig.backend.room().bytes_live > 0
    assert all(entry.state.number is not None for entry in rig.engine.cache.entries)
    again = (*first.ids, *one.token_ids, *prompt(10, 3))
    (more,) = rig.run(ask("3", again, conversation="a"))
    assert more.usage.restored_tokens == 0
    assert more.usage.reused_tokens == len(first.ids) + len(one.token_ids) - 1
    assert more.token_ids == cold(kind, ask("c", again))
    assert two.finish_reason == "length"


@kinds
def test_a_pool_that_is_full_of_resting_conversations_takes_another(kind: str) -> None:
    narrow = {"chunk": 64, "max_rows": 64}
    whole = rig_of(kind, **narrow).backend.pool_bytes  # type: ignore[arg-type]
    rig = rig_of(kind, pool_bytes=whole // 3, **narrow)  # type: ignore[arg-type]
    parked = 0
    said: dict[str, tuple[int, ...]] = {}
    for turn in range(2):
        for name in "abcdefg":
            ids = said.get(name, ()) + prompt(200, ord(name) + 10 * turn)
            (result,) = rig.run(ask(f"{name}{turn}", ids, 8, conversation=name))
            assert result.token_ids == cold(kind, ask("c", ids, 8))
            assert turn == 0 or found(result) == len(said[name]) - 1
            said[name] = ids + result.token_ids
            parked += rig.engine.stats.kept_parked
    assert parked > 0
