"""Laws of cutting back, on tiny models: plain, sliding window, recurrent and hybrid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.backends.base import Row
from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.errors import Interrupted
from tests.engine import tiny_models
from tests.engine.llama_cpp_support import (
    Logits,
    cold,
    equal_up_to_a_close_call,
    feed,
    greedy,
    opened_backend,
    opened_model,
    prompt,
)

IDS = prompt(400)
KINDS = ["llama", "window", "mamba", "hybrid"]
# A window's cells lie elsewhere after a cut, so sums are taken in another order.
TOLERANCE = {"llama": 0.0, "window": 1e-3, "mamba": 0.0, "hybrid": 0.0}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backend(kind: str, tmp_path: Path) -> Iterator[LlamaCppBackend]:
    path = getattr(tiny_models, f"write_{kind}")(tmp_path / "tiny.gguf")
    with opened_model(path) as model, opened_backend(model, start_context=512) as opened:
        yield opened


def close(kind: str, ours: Logits, theirs: Logits) -> bool:
    return bool(np.abs(ours - theirs).max() <= TOLERANCE[kind])


def test_after_a_cut_to_anywhere_the_numbers_are_those_of_a_cold_run(
    backend: LlamaCppBackend, kind: str
) -> None:
    expected = cold(backend, IDS)
    for target in (1, 40, 63, 64, 65, 200, 310, 337, 338, 396, 397, 398, 399):
        feed(backend, 0, IDS[:150])
        backend.mark(0)
        feed(backend, 0, IDS[150:398])
        backend.mark(0)
        feed(backend, 0, IDS[398:] + prompt(30, seed=9))
        kept = backend.truncate(0, target)
        assert 0 <= kept <= target
        assert backend.length(0) == kept
        if len(IDS) - kept >= 2:
            assert close(kind, feed(backend, 0, IDS[kept:]), expected)
        backend.drop(0)


def test_a_restore_point_is_reached_however_much_came_after(
    backend: LlamaCppBackend, kind: str
) -> None:
    expected = cold(backend, IDS)
    feed(backend, 0, IDS[:398])
    backend.mark(0)
    assert (backend.room().bytes_parked > 0) is (kind != "llama")
    feed(backend, 0, prompt(900, seed=5))
    assert backend.truncate(0, 398) == 398
    assert close(kind, feed(backend, 0, IDS[398:]), expected)


@pytest.mark.parametrize("kind", ["window", "mamba", "hybrid"])
def test_restore_points_stay_within_their_bytes_and_the_oldest_go(
    backend: LlamaCppBackend, kind: str, tmp_path: Path
) -> None:
    feed(backend, 0, IDS)
    backend.mark(0)
    point_bytes = backend.room().bytes_parked
    path = tmp_path / "tiny.gguf"
    limit = 5 * point_bytes // 2
    with opened_model(path) as model, opened_backend(model, points_bytes=limit) as small:
        for place in range(50, 400, 50):
            feed(small, 0, IDS[place - 50 : place])
            small.mark(0)
            assert small.room().bytes_parked <= limit
        feed(small, 0, prompt(900, seed=5))
        assert small.truncate(0, 349) == 300
        feed(small, 1, IDS[:50])
        small.mark(1)
        assert small.room().bytes_parked <= limit
    with opened_model(path) as model, opened_backend(model, points_bytes=0) as none:
        feed(none, 0, IDS[:50])
        none.mark(0)
        assert none.room().bytes_parked == 0


def test_a_parked_state_can_be_cut_to_exactly_what_it_says(
    backend: LlamaCppBackend, kind: str
) -> None:
    expected = cold(backend, IDS)
    feed(backend, 0, IDS[:100])
    backend.mark(0)
    feed(backend, 0, IDS[100:])
    backend.mark(0)
    feed(backend, 0, prompt(7, seed=8))
    parked = backend.park(0)
    assert parked.length == 407
    assert backend.room().bytes_parked == 0
    positions = parked.positions
    if kind == "llama":
        assert positions is None
        positions = (1, 200, 398)
    assert positions is not None
    assert {100, 400, 407} <= set(positions) or kind == "llama"
    for place in positions:
        assert backend.restore(parked, 1, place) == place
        if place <= 398:
            assert close(kind, feed(backend, 1, IDS[place:]), expected)
        backend.drop(1)


def test_live_positions_are_what_truncate_keeps(backend: LlamaCppBackend, kind: str) -> None:
    feed(backend, 0, IDS[:50])
    backend.mark(0)
    feed(backend, 0, IDS[50:])
    positions = backend.positions(0)
    if positions is None:
        assert kind == "llama"
        return
    for wanted in (400, 399, 380, 350, 200, 60, 50, 49):
        backend.fork(0, 1, 400)
        expected = max((place for place in positions if place <= wanted), default=0)
        assert backend.truncate(1, wanted) == expected


def test_forks_do_not_disturb_each_other(backend: LlamaCppBackend, kind: str) -> None:
    feed(backend, 0, IDS)
    backend.mark(0)
    backend.fork(0, 1, 400)
    first = feed(backend, 0, (5, 6))
    feed(backend, 1, (9, 9, 9, 9))
    assert backend.truncate(1, 400) == 400
    assert np.abs(feed(backend, 1, (5, 6)) - first).max() < 1e-3
    backend.drop(0)
    assert np.isfinite(feed(backend, 1, (7, 8))).all()


def test_a_new_conversation_knows_nothing_of_the_last(backend: LlamaCppBackend, kind: str) -> None:
    expected = cold(backend, IDS[:60])
    feed(backend, 0, prompt(700, seed=4))
    backend.drop(0)
    feed(backend, 1, prompt(300, seed=6))
    backend.truncate(1, 0)
    assert close(kind, cold(backend, IDS[:60]), expected)


def test_growing_and_more_sequences_keep_the_answer(backend: LlamaCppBackend, kind: str) -> None:
    ids, margins = greedy(backend, 0, feed(backend, 0, IDS), 5)
    backend.drop(0)
    logits = feed(backend, 0, IDS)
    for sequence in range(1, 8):
        feed(backend, sequence, prompt(250, seed=sequence))
    ours, _ = greedy(backend, 0, logits, 5)
    assert equal_up_to_a_close_call(ours, ids, margins)
    assert [backend.length(sequence) for sequence in range(1, 8)] == [250] * 7


def test_an_interrupt_between_calls_says_exactly_what_was_written(
    backend: LlamaCppBackend, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cold(backend, IDS)
    decode = backend._pool.context.decode
    calls = 0

    def decode_then_interrupt() -> int:
        nonlocal calls
        calls += 1
        code = decode()
        backend.interrupt()
        return code

    monkeypatch.setattr(backend._pool.context, "decode", decode_then_interrupt)
    rows = [Row(1, 0, prompt(100, seed=1), False), Row(0, 0, IDS, False)]
    with pytest.raises(Interrupted) as stopped:
        backend.forward(rows)
    monkeypatch.undo()
    assert calls == 1
    assert stopped.value.rows_done == (100, 0)
    backend.drop(1)
    assert close(kind, feed(backend, 0, IDS), expected)


def test_quantized_storage_falls_back_with_words_where_heads_are_odd(tmp_path: Path) -> None:
    path = tiny_models.write_llama(tmp_path / "odd.gguf", head_size=48)
    with opened_model(path) as model, opened_backend(model, kv_type="q8") as backend:
        assert backend.facts.kv_type == "f16"
        assert "48" in backend.notices[0]
        assert np.isfinite(feed(backend, 0, IDS)).all()
