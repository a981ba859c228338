"""The paged backend chooses tokens and goes on from them: the answers are those of one that waits,
and what a pass has chosen stays readable while the next one writes.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from typing import Any

import numpy as np
import pytest

from engine.backends.base import CHOSEN, Choice, ChosenScores, Row
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.config import EngineConfig
from engine.request import Request, Sampling
from tests.engine.engine_runs import GREEDY, ask
from tests.engine.late_device import LateDevice, run_all_on, run_on
from tests.engine.paged_support import PagedRig, feed, free_blocks, poison_blocks, prompt
from tests.engine.tiny_decoders import WINDOWS, paged_backend

kinds = pytest.mark.parametrize("kind", WINDOWS)
LIKELIEST = Choice(0.0, 1, 1.0, 0.0, 0.0)
WARM = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.01, seed=3)
MIXED = dataclasses.replace(WARM, top_k=7, seed=4)


def recorded(kind: str = "full", **changes: Any) -> TorchPagedBackend:
    backend = paged_backend(kind, records=True, **{"ctx": 256, **changes})
    backend.warm_up(lambda done, total: True)
    return backend


def rig_of(backend: TorchPagedBackend) -> tuple[PagedRig, list[Row]]:
    """With the rows that follow."""
    seen: list[Row] = []
    forward = backend.forward

    def watched(rows: Any) -> Any:
        seen.extend(row for row in rows if row.follows)
        return forward(rows)

    backend.forward = watched  # type: ignore[method-assign]  # noted
    return PagedRig(backend, EngineConfig(speculate=False)), seen


def follow(number: int, start: int, choice: Choice = LIKELIEST) -> Row:
    return Row(number, start, (CHOSEN,), True, choice=choice, follows=True)


def decode(number: int, start: int, token: int, choice: Choice | None = LIKELIEST) -> Row:
    return Row(number, start, (token,), True, choice=choice)


# ---- whole answers


@kinds
@pytest.mark.parametrize("sampling", [GREEDY, WARM])
def test_answers_are_those_of_a_backend_that_waits(kind: str, sampling: Sampling) -> None:
    asked: list[Request] = [
        ask("a", prompt(40, 1), 40, sampling=sampling, conversation="a"),
        ask("b", prompt(9, 2), 25, sampling=MIXED, conversation="b"),
        ask("c", prompt(17, 3), 33, sampling=sampling, conversation="c"),
    ]
    waits = PagedRig(paged_backend(kind, ctx=256), EngineConfig(speculate=False))
    wanted = [result.token_ids for result in waits.run(*asked)]
    rig, followers = rig_of(recorded(kind))
    assert [result.token_ids for result in rig.run(*asked)] == wanted
    assert len(followers) > 30
    # A second turn goes on from what was kept.
    again = ask("d", (*prompt(40, 1), *wanted[0], *prompt(5, 9)), 20, conversation="a")
    one, other = rig.run(again)[0], waits.run(again)[0]
    assert one.token_ids == other.token_ids
    assert one.usage.reused_tokens == other.usage.reused_tokens > 40


def test_the_backend_chooses_as_the_sampler_does() -> None:
    """Or every pass that was launched ahead would be taken back."""
    backend = recorded()
    cuts: list[tuple[int, int]] = []
    truncate = backend.truncate

    def watched(sequence: int, length: int) -> int:
        cuts.append((sequence, length))
        return truncate(sequence, length)

    backend.truncate = watched  # type: ignore[method-assign]  # noted
    rig, followers = rig_of(backend)
    rig.run(ask("a", prompt(20), 60, sampling=WARM))
    assert len(followers) > 10
    assert len(cuts) <= 1


class Asked:
    """Questions of a few conversations that come, go on from one another and are cancelled."""

    def __init__(self, rig: PagedRig, chance: random.Random) -> None:
        self.rig, self._chance = rig, chance
        self.all: list[Request] = []
        self._said: dict[str, tuple[int, ...]] = {}

    def one(self) -> None:
        """It begins with all or a part of what its conversation has, or with another's."""
        chance = self._chance
        said = self._said.get(chance.choice("abc"), prompt(12))
        kept = said[: len(said) - chance.choice([0, 0, 1, 5])]
        ids = (*kept, *prompt(chance.randrange(1, 8), chance.randrange(99)))[:90]
        sampling = chance.choice([GREEDY, WARM, MIXED])
        name, conversation = f"{len(self.all)}", chance.choice("abc")
        request = ask(
            name, ids, chance.randrange(1, 20), sampling=sampling, conversation=conversation
        )
        self.all.append(request)
        self._said[conversation] = ids
        self.rig.engine.submit(request)

    def act(self) -> None:
        engine, chosen = self.rig.engine, self._chance.random()
        if chosen < 0.25:
            self.one()
        elif chosen < 0.32 and self.all:
            engine.cancel(self._chance.choice(self.all[-3:]).request_id)
        elif chosen < 0.35:
            engine.drop(self._chance.choice("abc"))
        elif chosen < 0.4:
            engine.export(self._chance.choice("abc"))


@kinds
def test_whatever_happens_beside_a_late_device_answers_are_the_same(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free blocks become NaN as soon as they are free: behind what was told before."""
    chance, backend = random.Random(kind), recorded(kind, ctx=128, max_sequences=4)
    device = LateDevice(chance)
    run_all_on(device, backend, monkeypatch)
    rig = PagedRig(backend, EngineConfig(speculate=False))
    asked = Asked(rig, chance)
    asked.one()
    for _ in range(30):
        asked.act()
        rig.events += rig.engine.step()
        backend.validate()
        device.tell(functools.partial(poison_blocks, backend, free_blocks(backend)))
    while rig.engine.busy:
        rig.events += rig.engine.step()
    plain = paged_backend(kind)
    for request in asked.all:
        found = rig.result(request.request_id)
        cold = PagedRig(plain, EngineConfig(speculate=False, cache_bytes=0))
        wanted = cold.run(dataclasses.replace(request, conversation=""))[0].token_ids
        if found.finish_reason == "cancelled":
            wanted = wanted[: len(found.token_ids)]
        assert found.token_ids == wanted


# ---- one pass behind another


@kinds
def test_a_row_that_follows_scores_as_one_with_the_id(kind: str) -> None:
    ahead, plain = recorded(kind), paged_backend(kind, ctx=256)
    for number in range(3):
        feed(plain, number, prompt(10 + number, number))
        ahead.forward([Row(number, 0, prompt(10 + number, number), True)])
    order = [0, 1, 2]
    scores = ahead.forward([decode(n, 10 + n, 5 + n) for n in order])
    other = plain.forward([decode(n, 10 + n, 5 + n) for n in order])
    for depth in range(1, 6):
        assert isinstance(scores, ChosenScores)
        tokens = [int(other.candidates(n, 1).ids[0]) for n in range(3)]
        assert [scores.chosen(place) for place in range(3)] == [tokens[n] for n in order]
        # The same sequences, in another order of rows.
        order = [(n + depth) % 3 for n in range(3)]
        scores = ahead.forward([follow(n, 10 + n + depth) for n in order])
        other = plain.forward([decode(n, 10 + n + depth, tokens[n]) for n in range(3)])
        for place, n in enumerate(order):
            assert np.abs(scores.row(place) - other.row(n)).max() <= 2e-4


def test_what_was_chosen_stays_readable_while_the_next_pass_writes() -> None:
    """The device is slow: it does both passes before anybody looks."""
    device, backend, plain = LateDevice(), recorded(), recorded()
    run_on(device, backend)
    for one in (backend, plain):
        one.forward([Row(0, 0, prompt(10), True)])
    device.finish()
    wanted = plain.forward([decode(0, 10, 7)]).candidates(0, 5)
    first = backend.forward([decode(0, 10, 7)])
    second = backend.forward([follow(0, 11)])
    assert device.told
    assert isinstance(first, ChosenScores)
    assert first.candidates(0, 5).ids.tolist() == wanted.ids.tolist()
    assert first.candidates(0, 5).logits.tolist() == wanted.logits.tolist()
    assert first.chosen(0) == wanted.ids[0]
    after = plain.forward([decode(0, 11, int(wanted.ids[0]))])
    assert second.candidates(0, 5).ids.tolist() == after.candidates(0, 5).ids.tolist()


def test_whole_rows_of_an_overtaken_pass_are_refused() -> None:
    """They lie where the next pass writes its own."""
    backend = recorded()
    backend.forward([Row(0, 0, prompt(10), True)])
    first = backend.forward([decode(0, 10, 7)])
    backend.forward([follow(0, 11)])
    with pytest.raises(ValueError, match="overwritten"):
        first.row(0)
    with pytest.raises(ValueError, match="overwritten"):
        first.candidates(0, backend.facts.max_choice + 1)


@pytest.mark.parametrize(
    "rows",
    [
        [decode(0, 11, 8, None)],
        # An answer beside a prompt is not recorded.
        [decode(0, 11, 8), Row(1, 0, prompt(40), True)],
    ],
)
def test_nothing_follows_a_pass_that_chose_nothing(rows: list[Row]) -> None:
    backend = recorded()
    backend.forward([Row(0, 0, prompt(10), True)])
    backend.forward([decode(0, 10, 7)])
    scores = backend.forward(rows)
    assert not isinstance(scores, ChosenScores)
    with pytest.raises((KeyError, ValueError)):
        backend.forward([follow(0, 12)])
    assert backend.length(0) == 12


def test_a_row_that_followed_is_taken_back_exactly() -> None:
    for kind in WINDOWS:
        backend, plain = recorded(kind), recorded(kind)
        for one in (backend, plain):
            feed(one, 0, prompt(30))
            one.forward([decode(0, 30, 7)])
        backend.forward([follow(0, 31)])
        assert backend.truncate(0, 31) == 31
        one, other = (b.forward([decode(0, 31, 9)]).row(0) for b in (backend, plain))
        assert np.array_equal(one, other)


def test_off_a_gpu_nothing_is_chosen_ahead() -> None:
    assert paged_backend().facts.max_choice == 0
    assert recorded().facts.max_choice == 64
