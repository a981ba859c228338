"""Every family computes what transformers computes, cold and over a prefix that is in the pool."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from transformers import PreTrainedModel

from models.decoder import Decoder, PassStopped
from tests.models.hf_models import (
    FAMILIES,
    hf_logits,
    hf_model,
    our_decoder,
    random_ids,
    relative_error,
)
from tests.models.paged import BLOCK, PagedRun, run_pieces, run_whole

TOLERANCE = 1e-4

Pair = tuple[PreTrainedModel, Decoder]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=FAMILIES, ids=str)
def pair(request: pytest.FixtureRequest) -> Pair:
    model = hf_model(FAMILIES[request.param])
    return model, our_decoder(model)


@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1])
def test_cold(pair: Pair, length: int) -> None:
    model, decoder = pair
    ids = random_ids(length)
    assert relative_error(run_whole(decoder, ids), hf_logits(model, ids)) <= TOLERANCE


@pytest.mark.parametrize("pieces", [[BLOCK, BLOCK + 1], [7, 1, BLOCK], []], ids=str)
def test_over_a_prefix_and_token_by_token(pair: Pair, pieces: list[int]) -> None:
    model, decoder = pair
    ids = random_ids(2 * BLOCK + 5)
    assert relative_error(run_pieces(decoder, ids, pieces), hf_logits(model, ids)) <= TOLERANCE


def test_several_sequences_in_one_pass(pair: Pair) -> None:
    """A chunk, a single token, a sequence without new tokens and a fresh one share each pass."""
    model, decoder = pair
    whole = [random_ids(count, seed) for seed, count in enumerate((40, 19, 21, 17))]
    steps = [(23, 18, 20, 0), (17, 1, 0, 16), (0, 0, 1, 1)]
    run = PagedRun(decoder, sequences=4)
    found: list[list[torch.Tensor]] = [[], [], [], []]
    for counts in steps:
        added = [
            ids[held : held + count]
            for ids, held, count in zip(whole, run.lengths, counts, strict=True)
        ]
        parts = run.step(*added).split([len(one) for one in added])
        for one, part in zip(found, parts, strict=True):
            one.append(part)
    for ids, parts in zip(whole, found, strict=True):
        assert relative_error(torch.cat(parts), hf_logits(model, ids)) <= TOLERANCE


def test_logits_of_the_wanted_rows_alone(pair: Pair) -> None:
    _, decoder = pair
    ids = random_ids(20)
    every = run_whole(decoder, ids)
    some = PagedRun(decoder).step(ids, wanted=[19, 0, 7])
    torch.testing.assert_close(some, every[[19, 0, 7]])
    assert PagedRun(decoder).step(ids, wanted=[]).shape == (0, every.shape[1])


def test_a_pass_can_be_stopped_between_layers() -> None:
    decoder = our_decoder(hf_model(FAMILIES["llama"]))
    asked = iter([False, True])
    with pytest.raises(PassStopped):
        PagedRun(decoder).step(random_ids(5), is_stopped=lambda: next(asked))
    assert next(asked, None) is None
