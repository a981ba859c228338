"""The sampler against a plain one that sorts everything."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.base import Candidates
from engine.backends.scripted import log_sum_exp
from engine.output.changes import LogitChanges
from engine.output.random_numbers import uniform
from engine.output.recent import RecentTokens
from engine.output.sampler import NotFinite, ScoresAt, sample
from engine.output.selection import mass_places
from engine.request import Sampling


class PlainScores:
    """One row of logits; counts how often the whole row is asked for."""

    def __init__(self, row: npt.NDArray[np.float32]) -> None:
        self._row = row
        self.whole_rows = 0

    def row(self, index: int, place: int = -1) -> npt.NDArray[np.float32]:
        self.whole_rows += 1
        return self._row

    def candidates(self, index: int, k: int, place: int = -1) -> Candidates:
        ids = np.lexsort((np.arange(len(self._row)), -self._row))[:k].astype(np.int64)
        total = log_sum_exp(self._row)
        return Candidates(ids, self._row[ids], math.isfinite(total), lambda: total)


def reference(
    row: npt.NDArray[np.float32], sampling: Sampling, counts: Mapping[int, int], n: int
) -> int:
    """The documented chain, one list of (id, logit) after the other, every list sorted whole."""
    logits = [float(logit) for logit in row]
    for token, bias in sampling.logit_bias:
        logits[token] += bias
    for token, count in counts.items():
        if logits[token] > 0:
            logits[token] /= sampling.repeat_penalty
        else:
            logits[token] *= sampling.repeat_penalty
        logits[token] -= count * sampling.frequency_penalty + sampling.presence_penalty
    pool = sorted(enumerate(logits), key=lambda pair: (-pair[1], pair[0]))
    if sampling.temperature == 0:
        return pool[0][0]
    pool = pool[: sampling.top_k or None]
    if sampling.typical_p < 1:
        probabilities = softmax([logit for _, logit in pool])
        entropy = -math.fsum(p * math.log(p) for p in probabilities if p > 0)
        by_surprise = sorted(
            zip(pool, probabilities, strict=True),
            key=lambda it: (abs(-math.log(it[1]) - entropy) if it[1] > 0 else math.inf, it[0][0]),
        )
        kept = reaching([p for _, p in by_surprise], sampling.typical_p)
        pool = sorted(
            (pair for pair, _ in by_surprise[:kept]), key=lambda pair: (-pair[1], pair[0])
        )
    if sampling.top_p < 1:
        pool = pool[: reaching(softmax([logit for _, logit in pool]), sampling.top_p)]
    if sampling.min_p > 0:
        least = pool[0][1] + math.log(min(sampling.min_p, 1.0))
        pool = [pair for pair in pool if pair[1] >= least]
    pool.sort()
    probabilities = softmax([logit / sampling.temperature for _, logit in pool])
    number = uniform(sampling.seed, n)
    for (token, _), reached in zip(pool, np.cumsum(probabilities), strict=True):
        if number < reached:
            return token
    return pool[-1][0]


def softmax(logits: list[float]) -> list[float]:
    best = max(logits)
    weights = [math.exp(logit - best) for logit in logits]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def reaching(probabilities: list[float], mass: float) -> int:
    total = 0.0
    for index, probability in enumerate(probabilities):
        total += probability
        if total >= mass:
            return index + 1
    return len(probabilities)


def counts_of(sampling: Sampling, seed: int, size: int) -> dict[int, int]:
    if sampling.repeat_last_n == 0:
        return {}
    random = np.random.default_rng(seed)
    tokens = random.integers(0, size, random.integers(0, 40))
    return {int(token): int(random.integers(1, 5)) for token in tokens}


odd_samplings = st.builds(
    Sampling,
    logit_bias=st.lists(
        st.tuples(st.integers(0, 99), st.sampled_from([-5.0, -0.5, 0.7, 9.0])),
        max_size=4,
        unique_by=lambda pair: pair[0],
    ).map(tuple),
    repeat_penalty=st.sampled_from([1.0, 1.1, 1.9, 0.8]),
    frequency_penalty=st.sampled_from([0.0, 0.3, -0.4]),
    presence_penalty=st.sampled_from([0.0, 0.9, -0.6]),
    top_k=st.sampled_from([0, 0, 1, 2, 5, 40, 99, 100, 3000, 100_000]),
    typical_p=st.sampled_from([1.0, 1.0, 0.9, 0.31]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 0.999, 0.02]),
    min_p=st.sampled_from([0.0, 0.05, 0.6, 1.0]),
    temperature=st.sampled_from([0.0, 0.3, 0.8, 1.0, 2.5]),
    seed=st.integers(-(2**70), 2**70),
)


@settings(max_examples=300, deadline=None)
@given(
    odd_samplings,
    st.sampled_from([100, 101, 700, 3000]),
    st.integers(0, 10**6),
    st.sampled_from([0.05, 1.0, 3.0, 12.0]),
    st.integers(0, 10**6),
)
def test_equals_the_plain_chain(
    sampling: Sampling, size: int, seed: int, spread: float, n: int
) -> None:
    row = (np.random.default_rng(seed).standard_normal(size) * spread).astype(np.float32)
    counts = counts_of(sampling, seed, size)
    changes = LogitChanges(sampling, counts)
    assert sample(ScoresAt(PlainScores(row), 0), sampling, changes, n) == reference(
        row, sampling, counts if penalised(sampling) else {}, n
    )


def penalised(sampling: Sampling) -> bool:
    return (
        sampling.repeat_penalty,
        sampling.frequency_penalty,
        sampling.presence_penalty,
    ) != (1.0, 0.0, 0.0)


@pytest.mark.parametrize("size", [5, 2000])
@pytest.mark.parametrize("top_k", [0, 3])
def test_equal_logits_are_taken_in_the_order_of_their_ids(size: int, top_k: int) -> None:
    row = np.zeros(size, dtype=np.float32)
    sampling = Sampling(top_k=top_k, top_p=3 / size, min_p=0.0, temperature=1.0)
    none = LogitChanges(sampling, {})
    drawn = {sample(ScoresAt(PlainScores(row), 0), sampling, none, n) for n in range(60)}
    assert drawn <= {0, 1, 2}
    greedy = Sampling(temperature=0.0)
    assert sample(ScoresAt(PlainScores(row), 0), greedy, LogitChanges(greedy, {}), 0) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.0),
        Sampling(top_k=0, top_p=1.0, min_p=0.0),
        Sampling(top_k=0, typical_p=0.5),
        Sampling(repeat_penalty=1.2),
    ],
)
def test_a_row_that_is_not_finite_is_refused(bad: float, sampling: Sampling) -> None:
    row = np.arange(300, dtype=np.float32)
    row[7] = bad
    with pytest.raises(NotFinite):
        sample(ScoresAt(PlainScores(row), 0), sampling, LogitChanges(sampling, {3: 1}), 0)


@pytest.mark.parametrize("top_k", [0, 5])
def test_a_banned_token_never_comes_even_if_all_are_banned(top_k: int) -> None:
    row = np.array([9.0, 1.0, 0.0], dtype=np.float32)
    bans = tuple((token, -math.inf) for token in range(2))
    sampling = Sampling(logit_bias=bans, top_k=top_k)
    drawn = {
        sample(ScoresAt(PlainScores(row), 0), sampling, LogitChanges(sampling, {}), n)
        for n in range(9)
    }
    assert drawn == {2}
    all_banned = Sampling(logit_bias=(*bans, (2, -math.inf)), top_k=top_k)
    with pytest.raises(NotFinite):
        sample(ScoresAt(PlainScores(row), 0), all_banned, LogitChanges(all_banned, {}), 0)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.0),
        Sampling(),
        Sampling(repeat_penalty=1.1, frequency_penalty=0.5),
        Sampling(top_k=40, typical_p=0.5),
        Sampling(top_k=0, top_p=0.9),
        Sampling(top_k=0, top_p=1.0, min_p=0.1),
    ],
)
def test_the_whole_row_is_not_looked_at_without_need(sampling: Sampling) -> None:
    scores = PlainScores((np.random.default_rng(1).standard_normal(5000) * 9).astype(np.float32))
    sample(ScoresAt(scores, 0), sampling, LogitChanges(sampling, {4: 2, 9: 1}), 0)
    assert scores.whole_rows == 0


def test_draws_follow_the_probabilities() -> None:
    row = np.log(np.array([0.5, 0.3, 0.15, 0.05], dtype=np.float32))
    sampling = Sampling(top_k=0, top_p=1.0, min_p=0.0, temperature=1.0, seed=5)
    none = LogitChanges(sampling, {})
    draws = [sample(ScoresAt(PlainScores(row), 0), sampling, none, n) for n in range(20_000)]
    shares = np.bincount(draws) / len(draws)
    # Four standard deviations of a share of 20,000 draws are at most 0.0142.
    assert np.abs(shares - [0.5, 0.3, 0.15, 0.05]).max() < 0.0142


def test_random_numbers_depend_on_seed_and_place_alone_and_fill_the_unit_interval() -> None:
    numbers = np.array([[uniform(seed, n) for n in range(500)] for seed in range(40)])
    assert len(np.unique(numbers)) == numbers.size
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    # 1,000 expected in each of 20 bins: chi-square beyond 50 has a probability below 0.0002.
    assert ((counts - 1000.0) ** 2 / 1000).sum() < 50
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.04
    assert uniform(3, 7) == uniform(3, 7)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([3, 1024, 1025, 5000]),
    st.sampled_from([1, 2, 50, 10**6]),
    st.floats(0.0, 1.0),
    st.integers(0, 10**6),
)
def test_the_smallest_set_that_reaches_a_mass_is_found_without_sorting(
    size: int, distinct: int, share: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    keys = random.integers(0, distinct, size).astype(np.float64)
    weights = 2.0 ** -np.floor(keys.max() - keys).clip(0, 20)
    ids = np.arange(size, dtype=np.int64)
    target = share * float(weights.sum())
    places = mass_places(ids, keys, weights, target)
    order = sorted(range(size), key=lambda place: (-keys[place], place))
    count = int(np.searchsorted(weights[order].cumsum(), target)) + 1
    assert sorted(places.tolist()) == sorted(order[:count])


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(-1, 9), st.integers(0, 30))
def test_the_penalties_look_back_on_exactly_the_last_tokens(
    ids: list[int], last_n: int, prompt: int
) -> None:
    recent = RecentTokens(last_n, ids[:prompt])
    for token in ids[prompt:]:
        recent.push(token)
    window = ids if last_n < 0 else ids[max(len(ids) - last_n, 0) :]
    assert recent.counts == dict(Counter(window))
