"""How far the numbers move where they may move: KV that decoding wrote, and batch mates.

The measure is the model's own: a cold prompt read in pieces against the same read token by token.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine.backends.base import Row
from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.model import LoadedModel
from models.tokenizers.gguf_vocab import GGUFTokenizer
from tests.engine.llama_cpp_support import feed, greedy, opened_backend, opened_model

pytestmark = pytest.mark.model

TEXT = (
    "The lighthouse stood on a rock two miles from the harbour. Every evening the keeper climbed "
    "its stairs, lit the lamp and wrote down the wind, the rain and the ships that passed. In "
    "winter no boat could land for weeks, so he kept flour, oil and a box of books. One night a "
    "ship without lights came close, and he rang the bell until the fog had gone. "
)
ANSWER = 100
NEXT = 60
Distributions = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def model(starter_model: Path) -> Iterator[LoadedModel]:
    with opened_model(starter_model) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def text(starter_model: Path) -> tuple[int, ...]:
    tokenizer = GGUFTokenizer(starter_model)
    try:
        return tuple(tokenizer.encode(TEXT * 4))
    finally:
        tokenizer.close()


@pytest.fixture(params=[False, True], ids=["flash off", "flash on"])
def backend(model: LoadedModel, request: pytest.FixtureRequest) -> Iterator[LlamaCppBackend]:
    with opened_backend(model, flash=request.param) as opened:
        yield opened


def distributions(
    backend: LlamaCppBackend, sequence: int, ids: tuple[int, ...], mates: tuple[int, ...] = ()
) -> Distributions:
    """Log probabilities [len(ids), vocab] while `ids` are fed as if they had been sampled."""
    rows = []
    for token in ids:
        batch = [Row(s, backend.length(s), (token,), True) for s in (sequence, *mates)]
        logits = backend.forward(batch).row(0).astype(np.float64)
        logits -= logits.max()
        rows.append(logits - np.log(np.exp(logits).sum()))
    return np.array(rows)


def divergence(cold: Distributions, other: Distributions) -> float:
    """Mean Kullback-Leibler divergence of `other` from `cold`, in nats."""
    return float((np.exp(cold) * (cold - other)).sum(axis=1).mean())


def test_an_answers_kv_is_as_close_to_a_cold_prompt_as_reading_token_by_token(
    backend: LlamaCppBackend, text: tuple[int, ...]
) -> None:
    prompt, tail = text[:120], text[120 : 120 + NEXT]
    answer, _margins = greedy(backend, 0, feed(backend, 0, prompt), ANSWER)
    feed(backend, 0, tail)
    then = text[-NEXT:]
    warm = distributions(backend, 0, then)
    everything = (*prompt, *answer, *tail)
    backend.drop(0)
    feed(backend, 0, everything, 64)
    cold = distributions(backend, 0, then)
    backend.drop(0)
    feed(backend, 0, everything, 1)
    spread = divergence(cold, distributions(backend, 0, then))
    assert spread > 0
    assert divergence(cold, warm) <= 2 * spread


def test_a_batch_mate_moves_the_numbers_no_more_than_that(
    backend: LlamaCppBackend, text: tuple[int, ...]
) -> None:
    prompt, then = text[:200], text[-NEXT:]
    feed(backend, 0, prompt, 64)
    cold = distributions(backend, 0, then)
    backend.drop(0)
    feed(backend, 0, prompt, 1)
    spread = divergence(cold, distributions(backend, 0, then))
    backend.drop(0)
    feed(backend, 1, text[7:150])
    feed(backend, 0, prompt, 64)
    beside = distributions(backend, 0, then, mates=(1,))
    assert spread > 0
    assert divergence(cold, beside) <= 2 * spread
