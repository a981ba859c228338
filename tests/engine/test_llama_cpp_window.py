"""A real sliding-window model: editing and restoring never show a hole in the window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.backends.llama_cpp.backend import LlamaCppBackend
from tests.engine.llama_cpp_support import (
    equal_up_to_a_close_call,
    feed,
    greedy,
    opened_backend,
    opened_model,
    prompt,
)

pytestmark = pytest.mark.model

LENGTH = 1100
IDS = prompt(LENGTH, vocab=200_000)


@pytest.fixture(scope="module")
def backend(window_model: Path) -> Iterator[LlamaCppBackend]:
    with opened_model(window_model) as model, opened_backend(model) as opened:
        yield opened


def answer(backend: LlamaCppBackend, sequence: int) -> tuple[list[int], list[float]]:
    """Reads what is missing of IDS and goes on for some tokens."""
    logits = feed(backend, sequence, IDS[backend.length(sequence) :])
    return greedy(backend, sequence, logits, 6)


@pytest.fixture(scope="module")
def cold(backend: LlamaCppBackend) -> tuple[list[int], list[float]]:
    result = answer(backend, 0)
    backend.drop(0)
    return result


def test_a_conversation_cut_anywhere_goes_on_as_a_cold_one(
    backend: LlamaCppBackend, cold: tuple[list[int], list[float]]
) -> None:
    feed(backend, 0, IDS[:600])
    backend.mark(0)
    feed(backend, 0, IDS[600:] + prompt(500, seed=3))
    for wanted in (1090, 700, 300):
        backend.fork(0, 1, LENGTH + 500)
        kept = backend.truncate(1, wanted)
        assert kept in (wanted, 600, 0)
        assert equal_up_to_a_close_call(answer(backend, 1)[0], *cold)
    backend.drop(0)
    backend.drop(1)


def test_parking_forgets_the_window_and_says_so(
    backend: LlamaCppBackend, cold: tuple[list[int], list[float]]
) -> None:
    feed(backend, 0, IDS[:1098])
    backend.mark(0)
    feed(backend, 0, IDS[1098:] + prompt(40, seed=4))
    parked = backend.park(0)
    assert parked.positions is not None
    assert 1098 in parked.positions
    assert 1000 not in parked.positions
    assert backend.restore(parked, 0, 1098) == 1098
    assert equal_up_to_a_close_call(answer(backend, 0)[0], *cold)
    backend.drop(0)
    assert backend.restore(parked, 0, 1000) == 0
    assert equal_up_to_a_close_call(answer(backend, 0)[0], *cold)
    backend.drop(0)
