"""Refused drafts leave no trace in llama.cpp, and accepted ones write what one by one would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.backends.base import Row
from engine.backends.llama_cpp.backend import MAX_DRAFT, LlamaCppBackend
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.scripted_vocabulary import ScriptedVocabulary
from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Finished, Result
from engine.request import Limits, Request, Sampling
from models.tokenizers.gguf_vocab import GGUFTokenizer
from tests.engine import tiny_models
from tests.engine.engine_runs import GREEDY, Clock
from tests.engine.llama_cpp_support import (
    Logits,
    equal_up_to_a_close_call,
    feed,
    greedy,
    opened_backend,
    opened_model,
    prompt,
)

IDS = prompt(200)
WINDOW = 64
WRITTEN = 100
PASSAGE = (
    "The lighthouse stood on a rock two miles from the harbour. Every evening the keeper climbed "
    "its stairs, lit the lamp and wrote down the wind, the rain and the ships that passed. In "
    "winter no boat could land for weeks, so he kept flour, oil and a box of books. One night a "
    "ship without lights came close, and he rang the bell until the fog had gone."
)
COPY = f"Original:\n\n{PASSAGE}\n\nFirst copy:\n\n{PASSAGE}\n\nSecond copy:\n\n{PASSAGE[:58]}"


@pytest.fixture(params=["llama", "window"])
def backend(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LlamaCppBackend]:
    path = getattr(tiny_models, f"write_{request.param}")(tmp_path / "tiny.gguf")
    with opened_model(path) as model, opened_backend(model, start_context=512) as opened:
        yield opened


def after_refusals(backend: LlamaCppBackend, seed: int) -> list[Logits]:
    """Scores of an answer of which every step refuses all drafts but one or two."""
    feed(backend, 0, IDS)
    found = []
    for step, token in enumerate(prompt(80, seed=50)):
        at = backend.length(0)
        drafts = (token, 5, *prompt(MAX_DRAFT - 1, seed=seed + step))
        scores = backend.forward([Row(0, at, drafts, True, wants_all=True)])
        kept = 1 + step % 2
        found += [scores.row(0, place) for place in range(kept)]
        assert backend.truncate(0, at + kept) == at + kept == backend.length(0)
    found.append(feed(backend, 0, IDS[:30]))
    backend.drop(0)
    return found


def test_what_was_refused_cannot_be_told_from_what_comes_after(backend: LlamaCppBackend) -> None:
    """Longer than the window, so that its oldest cells are given up meanwhile."""
    for one, other in zip(after_refusals(backend, 100), after_refusals(backend, 900), strict=True):
        assert np.array_equal(one, other)


def test_the_scores_of_a_drafted_row_are_those_of_one_by_one(backend: LlamaCppBackend) -> None:
    feed(backend, 0, IDS)
    backend.fork(0, 1, len(IDS))
    tokens = prompt(MAX_DRAFT, seed=3)
    alone = []
    for token in tokens:
        alone.append(backend.forward([Row(1, backend.length(1), (token,), True)]).row(0))
    mate = Row(1, backend.length(1), (7,), True)
    scores = backend.forward([Row(0, len(IDS), tokens, True, wants_all=True), mate])
    for place, expected in enumerate(alone):
        assert np.abs(scores.row(0, place) - expected).max() < 0.01
        assert np.array_equal(scores.row(0, place), scores.row(0, place - MAX_DRAFT))
        best = scores.candidates(0, 3, place)
        assert best.ids[0] == scores.row(0, place).argmax()
    with pytest.raises(ValueError, match="row 1"):
        scores.row(1, 1)


def test_more_drafts_than_there_is_room_for_are_refused(backend: LlamaCppBackend) -> None:
    assert backend.facts.max_draft == MAX_DRAFT
    with pytest.raises(ValueError, match="max_draft"):
        backend.forward([Row(0, 0, (1,) * (MAX_DRAFT + 2), True, wants_all=True)])


@pytest.mark.parametrize("kind", ["mamba", "hybrid"])
def test_nothing_is_drafted_on_a_running_state(kind: str, tmp_path: Path) -> None:
    path = getattr(tiny_models, f"write_{kind}")(tmp_path / "tiny.gguf")
    with opened_model(path) as model, opened_backend(model) as backend:
        assert backend.facts.max_draft == 0


def written(
    backend: LlamaCppBackend, ids: tuple[int, ...], sampling: Sampling = GREEDY
) -> tuple[Result, int]:
    """An answer, and how many of its tokens were drafted. The clock stands: drafts cost nothing."""
    vocabulary = ScriptedVocabulary()
    vocabulary.end_ids = frozenset()
    engine = Engine(backend, vocabulary, EngineConfig(), Clock())
    engine.submit(Request("r", ids, sampling, Limits(WRITTEN)))
    while engine.busy:
        for event in engine.step():
            engine.validate(backend.length)
            if isinstance(event, Finished):
                return event.result, engine.stats.accepted_tokens
    raise AssertionError("it did not finish")


def test_an_answer_that_repeats_itself_is_the_one_written_token_by_token(
    backend: LlamaCppBackend,
) -> None:
    ids = prompt(20, seed=9) * 5
    expected = greedy(backend, 0, feed(backend, 0, ids), WRITTEN)
    backend.drop(0)
    result, accepted = written(backend, ids)
    assert accepted > 0
    assert equal_up_to_a_close_call(list(result.token_ids), *expected, close=0.02)


@pytest.fixture(scope="module", params=["starter_model", "window_model"])
def real(request: pytest.FixtureRequest) -> Iterator[tuple[LoadedModel, tuple[int, ...]]]:
    path = request.getfixturevalue(request.param)
    tokenizer = GGUFTokenizer(path)
    try:
        ids = tuple(tokenizer.encode(COPY))
    finally:
        tokenizer.close()
    with opened_model(path) as model:
        yield model, ids


@pytest.mark.model
@pytest.mark.parametrize("flash", [False, True], ids=["flash off", "flash on"])
def test_a_copied_passage_is_the_one_written_token_by_token(
    real: tuple[LoadedModel, tuple[int, ...]], flash: bool
) -> None:
    model, ids = real
    with opened_backend(model, flash=flash) as backend:
        expected = greedy(backend, 0, feed(backend, 0, ids), WRITTEN)
        backend.drop(0)
        result, accepted = written(backend, ids)
        assert accepted > WRITTEN // 2
        assert equal_up_to_a_close_call(list(result.token_ids), *expected)
        sampled, _ = written(backend, ids, Sampling(seed=5))
        assert sampled.usage.completion_tokens == WRITTEN
