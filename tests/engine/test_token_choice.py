"""A token that the device chooses is the one that the host draws from the same candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from engine.backends.torch_paged.download import Arrival
from engine.backends.torch_paged.scores import TensorScores
from engine.output.changes import LogitChanges
from engine.output.random_numbers import uniform
from engine.output.sampler import NotFinite, ScoresAt, sample
from engine.request import Sampling
from kernels.sampling_candidates import best_candidates, unpacked
from kernels.token_choice import choose_tokens

ROWS, CANDIDATES, VOCAB = 600, 64, 500


@pytest.fixture(autouse=True)
def single_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def logits_of(rows: int, made: np.random.Generator) -> torch.Tensor:
    """Peaked and flat rows, with many equal logits, a few without a number."""
    heat = made.uniform(0.1, 6.0, (rows, 1))
    logits = made.normal(size=(rows, VOCAB)) * heat
    logits[::3] = logits[::3].round()
    logits[5::7, ::2] = -math.inf
    logits[4::100, 7] = math.nan
    logits[9::100, 7] = math.inf
    return torch.from_numpy(logits.astype(np.float32))


def sampling_of(made: np.random.Generator) -> Sampling:
    return Sampling(
        top_k=int(made.choice([1, 2, 20, 40, 64])),
        top_p=float(made.choice([0.0, 0.5, 0.8, 0.95, 1.0])),
        min_p=float(made.choice([0.0, 0.05, 0.2, 1.0])),
        temperature=float(made.choice([0.0, 1e-8, 0.3, 0.7, 1.0, 1.5, 50.0])),
        seed=int(made.integers(2**63)),
    )


def on_host(scores: ScoresAt, sampling: Sampling, n: int) -> int | None:
    try:
        return sample(scores, sampling, LogitChanges(sampling, {}), n)
    except NotFinite:
        return None


@pytest.mark.parametrize("seed", range(20))
def test_the_device_chooses_what_the_host_draws(seed: int) -> None:
    made = np.random.default_rng(seed)
    logits = logits_of(ROWS, made)
    packed = best_candidates(logits, VOCAB, CANDIDATES)
    arrival = Arrival((packed,), lambda: None)
    scores = TensorScores(logits, [range(at, at + 1) for at in range(ROWS)], arrival, CANDIDATES)
    settings = [sampling_of(made) for _ in range(ROWS)]
    rules = [
        (one.temperature, one.top_k, one.top_p, one.min_p, uniform(one.seed, at))
        for at, one in enumerate(settings)
    ]
    chosen = choose_tokens(packed, torch.tensor(rules, dtype=torch.float64)).tolist()
    drawn = [on_host(ScoresAt(scores, at), one, at) for at, one in enumerate(settings)]
    firsts = unpacked(packed.numpy()).ids[:, 0].tolist()
    wanted = [first if one is None else one for one, first in zip(drawn, firsts, strict=True)]
    assert chosen == wanted
    assert None in drawn
