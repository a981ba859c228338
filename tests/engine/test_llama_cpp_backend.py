"""Laws of the llama.cpp backend on a real model: a warm engine computes what a cold one does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.backends.base import Parked, Row
from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.loader import LoadCancelled, load_model
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.pieces import Piece
from engine.backends.llama_cpp.saved_state import read_state, write_state
from engine.backends.llama_cpp.settings import BackendOptions
from engine.errors import Interrupted, OutOfRoom, UsageError
from tests.engine.llama_cpp_support import (
    cold,
    equal_up_to_a_close_call,
    feed,
    greedy,
    opened_backend,
    opened_model,
    prompt,
)
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.model

IDS = prompt(330, vocab=40_000)


@pytest.fixture(scope="module")
def model(starter_model: Path) -> Iterator[LoadedModel]:
    with opened_model(starter_model) as loaded:
        yield loaded


@pytest.fixture
def backend(model: LoadedModel) -> Iterator[LlamaCppBackend]:
    with opened_backend(model) as opened:
        yield opened


@pytest.mark.parametrize("kv_type", ["f16", "bf16", "k8", "q8", "k8v4"])
def test_park_restore_fork_and_truncate_keep_every_bit(
    model: LoadedModel, kv_type: str, tmp_path: Path
) -> None:
    with opened_backend(model, kv_type=kv_type) as backend:
        assert backend.facts.kv_type == kv_type
        expected = cold(backend, IDS)
        feed(backend, 0, (*IDS, 5, 6, 7))
        assert backend.truncate(0, 328) == 328
        assert np.array_equal(feed(backend, 0, IDS[328:]), expected)
        backend.fork(0, 3, 300)
        backend.drop(0)
        assert np.array_equal(feed(backend, 3, IDS[300:]), expected)
        parked = backend.park(3)
        assert parked.positions is None
        assert backend.restore(parked, 1, 310) == 310
        assert np.array_equal(feed(backend, 1, IDS[310:]), expected)
        backend.drop(1)
        assert write_state(tmp_path, "chat", "print", IDS, parked, 1 << 30)
    saved = read_state(tmp_path, "chat", "print")
    assert saved is not None
    with opened_backend(model, kv_type=kv_type) as later:
        assert later.restore(saved.parked, 2, 290) == 290
        assert np.array_equal(feed(later, 2, IDS[290:]), expected)


@pytest.mark.parametrize("chunk", [2, 37, 64, 127, 129, 200, 257])
def test_a_prompt_read_in_any_pieces_has_the_numbers_of_one_piece(
    backend: LlamaCppBackend, chunk: int
) -> None:
    ids = IDS[: chunk * 2 if chunk < 129 else 2 * (len(IDS) // 2)]
    if len(ids) % chunk == 1:
        ids = ids[:-1]
    expected = cold(backend, ids)
    assert np.array_equal(feed(backend, 0, ids, chunk), expected)


def test_growing_the_context_keeps_every_bit(model: LoadedModel) -> None:
    with opened_backend(model, start_context=2048) as large:
        expected = cold(large, IDS + IDS)
    with opened_backend(model, start_context=512) as small:
        assert np.array_equal(feed(small, 0, IDS + IDS), expected)


def test_holes_left_by_a_dropped_conversation_are_closed(backend: LlamaCppBackend) -> None:
    expected = cold(backend, IDS)
    ids, margins = greedy(backend, 0, feed(backend, 0, IDS), 8)
    backend.drop(0)
    feed(backend, 0, prompt(700, seed=1))
    feed(backend, 1, IDS[:200])
    backend.drop(0)
    logits = feed(backend, 1, IDS[200:])
    assert equal_up_to_a_close_call(greedy(backend, 1, logits, 8)[0], ids, margins)
    backend.drop(1)
    assert np.array_equal(feed(backend, 1, IDS), expected)


def test_two_conversations_side_by_side_answer_as_alone(backend: LlamaCppBackend) -> None:
    prompts = (IDS[:100], prompt(140, seed=2, vocab=40_000))
    alone = []
    for ids in prompts:
        alone.append(greedy(backend, 0, feed(backend, 0, ids), 12))
        backend.drop(0)
    logits = [feed(backend, sequence, ids) for sequence, ids in enumerate(prompts)]
    together: list[list[int]] = [[], []]
    for _ in range(12):
        for answer, row in zip(together, logits, strict=True):
            answer.append(int(row.argmax()))
        rows = [Row(s, backend.length(s), (together[s][-1],), True) for s in (0, 1)]
        scores = backend.forward(rows)
        logits = [scores.row(0), scores.row(1)]
    for answer, (ids_alone, margins) in zip(together, alone, strict=True):
        assert equal_up_to_a_close_call(answer, ids_alone, margins)


def test_a_prefill_has_the_same_numbers_beside_a_decode_row(backend: LlamaCppBackend) -> None:
    feed(backend, 0, IDS)
    expected = feed(backend, 1, IDS[:100])
    backend.drop(1)
    scores = backend.forward([Row(0, 330, (9,), True), Row(1, 0, IDS[:100], True)])
    assert np.array_equal(scores.row(1), expected)
    assert np.isfinite(scores.row(0)).all()


@pytest.fixture
def interrupter(
    backend: LlamaCppBackend, monkeypatch: pytest.MonkeyPatch
) -> Iterator[threading.Thread]:
    """Once started, it waits for a call of llama.cpp and interrupts that a moment later: no machine
    computes hundreds of tokens within it.
    """
    called, decode = threading.Event(), backend._decode

    def interrupt() -> None:
        called.wait(PATIENCE_S)
        time.sleep(0.01)
        backend.interrupt()

    def told(pieces: Sequence[Piece]) -> int:
        if thread.is_alive():
            called.set()
        return decode(pieces)

    thread = threading.Thread(target=interrupt)
    monkeypatch.setattr(backend, "_decode", told)
    yield thread
    called.set()


def test_an_interrupted_prompt_can_be_gone_on_with(
    backend: LlamaCppBackend, interrupter: threading.Thread
) -> None:
    ids = prompt(1400, seed=3, vocab=40_000)
    expected = cold(backend, ids)
    backend.interrupt()  # nothing runs: no effect later
    feed(backend, 0, ids[:10])
    interrupter.start()
    with pytest.raises(Interrupted) as stopped:
        backend.forward([Row(0, 10, ids[10:], True)])
    interrupter.join()
    (done,) = stopped.value.rows_done
    assert 0 <= done < len(ids) - 10
    assert backend.length(0) == 10 + done
    assert np.array_equal(feed(backend, 0, ids[10 + done :]), expected)


def test_an_interrupt_acts_within_one_call(
    backend: LlamaCppBackend, interrupter: threading.Thread
) -> None:
    rows = [Row(0, 0, prompt(2000, vocab=40_000), False)]
    interrupter.start()
    with pytest.raises(Interrupted):
        backend.forward(rows)
    interrupter.join()
    backend.forward([Row(1, 0, (1, 2), True)])


def test_out_of_room_changes_nothing(model: LoadedModel) -> None:
    with opened_backend(model, context=600, start_context=256) as backend:
        limit = backend.room().free_tokens
        assert limit == 1280
        expected = cold(backend, IDS)
        feed(backend, 0, IDS[:300])
        feed(backend, 1, prompt(590, seed=4))
        with pytest.raises(OutOfRoom):
            backend.forward([Row(2, 0, prompt(500), False)])
        assert [backend.length(sequence) for sequence in (0, 1, 2)] == [300, 590, 0]
        assert backend.room().free_tokens == limit - 890
        backend.drop(1)
        assert np.array_equal(feed(backend, 0, IDS[300:]), expected)


def test_room_counts_shared_tokens_once(backend: LlamaCppBackend) -> None:
    before = backend.room()
    feed(backend, 0, IDS)
    backend.fork(0, 1, 200)
    assert backend.room().free_tokens == before.free_tokens - 330
    backend.drop(0)
    assert backend.room().free_tokens == before.free_tokens - 200
    backend.drop(1)
    assert backend.room() == before


@pytest.mark.parametrize(
    "row",
    [
        Row(8, 0, (1,), True),
        Row(-1, 0, (1,), True),
        Row(0, 1, (1,), True),
        Row(0, 0, (), True),
        Row(0, 0, (49_152,), True),
        Row(0, 0, (-1,), True),
        Row(0, 0, (1,) * 2049, True),
    ],
)
def test_what_would_end_the_process_is_refused_before(backend: LlamaCppBackend, row: Row) -> None:
    with pytest.raises(ValueError, match=r"sequence|tokens"):
        backend.forward([row])
    assert backend.length(0) == 0
    assert np.isfinite(feed(backend, 0, (1, 2, 3))).all()


def test_scores_are_only_there_for_rows_that_wanted_them(backend: LlamaCppBackend) -> None:
    scores = backend.forward([Row(0, 0, (1, 2), False)])
    with pytest.raises(ValueError, match="did not want"):
        scores.row(0)
    with pytest.raises(ValueError, match="empty"):
        backend.park(5)
    with pytest.raises(ValueError, match="onto itself"):
        backend.fork(0, 0, 1)


def test_a_damaged_or_foreign_state_is_not_restored(
    backend: LlamaCppBackend, model: LoadedModel
) -> None:
    feed(backend, 0, IDS[:50])
    parked = backend.park(0)
    for data in (b"", parked.data[:40], parked.data[:-1], b"x" + parked.data[1:]):
        assert backend.restore(Parked(data, 50, None), 0, 50) == 0
    with opened_backend(model, flash=True) as other:
        assert other.restore(parked, 0, 50) == 0
        assert np.isfinite(feed(other, 0, IDS[:10])).all()
    assert backend.restore(parked, 0, 50) == 50
    with pytest.raises(ValueError, match="not empty"):
        backend.restore(parked, 0, 50)


@pytest.mark.parametrize(
    ("kv_type", "flash"),
    [("auto", False), ("bf16", False), ("k8", False), ("q8", True), ("k8v4", True)],
)
def test_every_kv_type_computes_and_says_what_is_used(
    model: LoadedModel, kv_type: str, flash: bool
) -> None:
    with opened_backend(model, kv_type=kv_type, flash=False) as backend:
        assert backend.facts.kv_type == {"auto": "f16"}.get(kv_type, kv_type)
        assert backend.flash is flash
        assert bool(backend.notices) is flash
        logits = feed(backend, 0, IDS)
        assert np.isfinite(logits).all()
        parked = backend.park(0)
        assert backend.restore(parked, 0, 328) == 328


def test_four_bit_keys_are_refused_with_numbers_where_they_hurt(model: LoadedModel) -> None:
    with pytest.raises(UsageError) as refused, opened_backend(model, kv_type="q4"):
        pass
    assert "nats" in refused.value.text
    assert "k8v4" in refused.value.next_step


def test_smaller_storage_takes_fewer_bytes(model: LoadedModel) -> None:
    taken = []
    for kv_type in ("f16", "k8", "q8", "k8v4"):
        with opened_backend(model, kv_type=kv_type) as backend:
            taken.append(backend.facts.kv_bytes_per_token)
    assert taken == sorted(taken, reverse=True)
    assert taken[0] == pytest.approx(23_040, abs=20)  # 30 layers, 3 heads of 64, K and V, 2 bytes


def test_other_threads_and_micro_batches_keep_every_bit(backend: LlamaCppBackend) -> None:
    expected = cold(backend, IDS)
    backend.set_threads(1)
    assert np.array_equal(cold(backend, IDS), expected)
    feed(backend, 0, IDS[:300])
    assert backend.retune(replace(backend.settings, n_ubatch=64, threads=2))
    assert backend.length(0) == 300
    assert np.array_equal(feed(backend, 0, IDS[300:]), expected)


def test_switching_flash_attention_drops_what_it_cannot_read(backend: LlamaCppBackend) -> None:
    feed(backend, 0, IDS[:50])
    assert not backend.retune(replace(backend.settings, flash=True))
    assert backend.length(0) == 0
    assert backend.flash
    assert "flash on" in backend.facts.numerics
    assert np.isfinite(feed(backend, 0, IDS[:50])).all()


def test_loading_reports_bytes_and_can_be_cancelled(starter_model: Path) -> None:
    seen: list[int] = []

    def stop_half_way(done: int, total: int) -> bool:
        seen.append(done)
        return done < total // 2

    with pytest.raises(LoadCancelled):
        load_model(starter_model, BackendOptions(), stop_half_way)
    assert seen == sorted(seen)
    assert starter_model.stat().st_size // 2 <= seen[-1] <= starter_model.stat().st_size
