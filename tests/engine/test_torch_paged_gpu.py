"""Recorded passes on a CUDA device: the scores of plain ones, and of the CPU in float32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.backends.base import CHOSEN, Choice, Row
from engine.backends.scripted_vocabulary import VOCAB_SIZE
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.backends.torch_paged.settings import PagedSettings
from engine.config import EngineConfig
from engine.request import Sampling
from models.decoder import Decoder
from models.weights import LayerWeights, Weights
from tests.engine.engine_runs import GREEDY, ask
from tests.engine.paged_support import PagedRig, prompt
from tests.engine.tiny_decoders import tiny_config, tiny_decoder

LIKELIEST = Choice(0.0, 1, 1.0, 0.0, 0.0)
WARM = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.01, seed=3)
pytestmark = pytest.mark.gpu
CONFIG = replace(tiny_config("window", 64), hidden=64, feed_forward=96)


def moved(weights: Weights, device: str, dtype: torch.dtype) -> Weights:
    def put(value: Any) -> Any:
        return value.to(device, dtype) if isinstance(value, torch.Tensor) else value

    layers = tuple(
        LayerWeights(**{name: put(getattr(one, name)) for name in one.__slots__})
        for one in weights.layers
    )
    embedding, norm, output = map(put, (weights.embedding, weights.norm, weights.output))
    return Weights(embedding, layers, norm, output)


def backend(device: str, dtype: str, **changes: Any) -> TorchPagedBackend:
    fields: dict[str, Any] = {"ctx": 512, "pool_bytes": 1 << 26, "block": 64, "max_rows": 512}
    settings = PagedSettings(
        **{**fields, "vocab_size": VOCAB_SIZE, "device": device, "dtype": dtype, **changes}
    )
    weights = moved(tiny_decoder(CONFIG).weights, device, getattr(torch, dtype))
    made = TorchPagedBackend(Decoder(CONFIG, weights), CONFIG, settings)
    made.warm_up(lambda done, total: True)
    return made


def scores(made: TorchPagedBackend) -> list[np.ndarray]:
    """Of a prompt, of answers together, and of drafts."""
    found = [made.forward([Row(0, 0, prompt(70), True)]).row(0)]
    made.forward([Row(1, 0, prompt(30, 1), False)])
    both = made.forward([Row(0, 70, (5,), True), Row(1, 30, (6,), True)])
    found += [both.row(0), both.row(1)]
    drafted = made.forward([Row(0, 71, (1, 2, 3), True, True)])
    return found + [drafted.row(0, place) for place in range(3)]


def far(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    difference = np.linalg.norm(np.array(one) - np.array(other))
    return float(difference / np.linalg.norm(np.array(other)))


@pytest.mark.parametrize("kv_type", ["auto", "q8"])
def test_replays_equal_plain_passes(kv_type: str) -> None:
    plain = scores(backend("cuda", "bfloat16", kv_type=kv_type))
    recorded = backend("cuda", "bfloat16", kv_type=kv_type, records=True)
    assert not recorded.notices
    assert far(scores(recorded), plain) <= 1e-2
    assert far(plain, scores(backend("cpu", "float32", kv_type=kv_type))) <= 5e-2


def test_candidates_of_the_device_are_those_of_its_rows() -> None:
    made = backend("cuda", "bfloat16", records=True)
    found = made.forward([Row(0, 0, prompt(40), True)])
    row, best = found.row(0), found.candidates(0, 20)
    assert best.ids.tolist() == sorted(range(len(row)), key=lambda i: (-row[i], i))[:20]
    assert best.log_sum_exp() == pytest.approx(float(np.log(np.exp(row).sum())), rel=1e-4)


def test_a_replay_takes_no_memory() -> None:
    made = backend("cuda", "bfloat16", records=True)
    made.forward([Row(0, 0, prompt(40), True)])
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for step in range(5):
        made.forward([Row(0, 40 + step, (7,), True)]).candidates(0, 5)
    last = made.forward([Row(0, 45, (7,), True, choice=LIKELIEST)])
    for step in range(5):
        row = Row(0, 46 + step, (CHOSEN,), True, choice=LIKELIEST, follows=True)
        following = made.forward([row])
        last.candidates(0, 5)
        last = following
    last.candidates(0, 5)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
@pytest.mark.parametrize("kv_type", ["auto", "q8"])
def test_answers_that_run_ahead_are_those_of_one_that_waits(
    kv_type: str, sampling: Sampling
) -> None:
    """Several at once, of which some end earlier; nearly every pass that was launched ahead counts,
    because the device chooses as the host does.
    """
    found = []
    for spare in (64, 0):
        made = backend("cuda", "bfloat16", kv_type=kv_type, records=True, spare=spare)
        assert bool(made.facts.max_choice) == bool(spare)
        cuts = watched(made)
        rig = PagedRig(made, EngineConfig(speculate=False))
        asked = [
            ask(f"{n}", prompt(20 + 9 * n, n), 30 + 25 * n, sampling=sampling, conversation=f"{n}")
            for n in range(3)
        ]
        found.append([result.token_ids for result in rig.run(*asked)])
        # Once for each answer that ends by an end token, for all that still run.
        assert len(cuts) <= 6
    assert found[0] == found[1]


def watched(made: TorchPagedBackend) -> list[tuple[int, int]]:
    """What is cut from now on."""
    cuts: list[tuple[int, int]] = []
    truncate = made.truncate

    def noting(sequence: int, length: int) -> int:
        cuts.append((sequence, length))
        return truncate(sequence, length)

    made.truncate = noting  # type: ignore[method-assign]  # noted
    return cuts
