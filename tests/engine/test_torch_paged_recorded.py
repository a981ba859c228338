"""Passes that are recorded once and replayed: the scores of plain ones, whatever pads them, and
nothing of an earlier step is left in them.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from engine.backends.base import Row
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.backends.torch_paged.download import Arrival
from engine.backends.torch_paged.pass_kinds import PassKind, all_kinds, kind_of
from engine.backends.torch_paged.recorded_passes import RecordedPasses
from engine.backends.torch_paged.scores import TensorScores
from kernels.sampling_candidates import best_candidates
from models.errors import LoadingStopped
from tests.engine.late_device import LateDevice
from tests.engine.paged_support import check, feed, prompt
from tests.engine.tiny_decoders import WINDOWS, paged_backend

kinds = pytest.mark.parametrize("kind", WINDOWS)


def recorded(kind: str = "full", **changes: Any) -> TorchPagedBackend:
    backend = paged_backend(kind, records=True, **changes)
    backend.warm_up(lambda done, total: True)
    return backend


def row(number: int, length: int, scored: bool = True, drafted: bool = False) -> Row:
    return Row(number, 0, tuple(range(length)), scored, drafted)


# ---- which shape a pass is padded to


def test_the_smallest_shape_that_fits_is_taken() -> None:
    every = all_kinds(8, 2048, 64)
    assert kind_of([row(0, 1)], every) == PassKind(1, 1, 1)
    assert kind_of([row(n, 1) for n in range(5)], every) == PassKind(8, 1, 8)
    assert kind_of([row(0, 4, True, True)], every) == PassKind(1, 4, 4)
    assert kind_of([row(0, 5, True, True), row(1, 1)], every) == PassKind(2, 8, 16)
    assert kind_of([row(0, 100, False)], every) == PassKind(1, 128, 0)
    assert kind_of([row(0, 512)], every) == PassKind(1, 512, 1)


def test_what_fits_nowhere_is_not_recorded() -> None:
    every = all_kinds(8, 2048, 64)
    assert kind_of([row(0, 513)], every) is None
    assert kind_of([row(0, 1), row(1, 40)], every) is None


@pytest.mark.parametrize(("sequences", "rows", "drafts"), [(1, 8, 0), (3, 128, 3), (8, 2048, 64)])
def test_shapes_stay_inside_the_backend(sequences: int, rows: int, drafts: int) -> None:
    found = all_kinds(sequences, rows, drafts)
    assert found[0].tokens == max(one.tokens for one in found)
    assert max(one.sequences for one in found) == sequences
    assert all(one.tokens <= max(rows, sequences) for one in found)
    assert kind_of([row(n, 1) for n in range(sequences)], found) is not None


# ---- the scores


@kinds
@pytest.mark.parametrize("kv_type", ["f32", "q8"])
def test_replays_equal_plain_passes(kind: str, kv_type: str) -> None:
    """Random batches over growing and cut sequences, with other numbers in every step."""
    fields = {"kv_type": kv_type, "spare": 12}
    one, other = recorded(kind, **fields), paged_backend(kind, **fields)
    chance = random.Random(kind)
    for _ in range(25):
        chosen = chance.sample(range(8), chance.choice([1, 1, 2, 5]))
        rows = []
        for number in chosen:
            if one.length(number) > 90:
                one.drop(number)
                other.drop(number)
            count = chance.choice([1, 1, 3, 20] if len(chosen) == 1 else [1, 1, 3])
            ids = prompt(count, chance.randrange(99))
            rows.append(Row(number, one.length(number), ids, chance.random() < 0.8, count == 3))
        found, wanted = one.forward(rows), other.forward(rows)
        check(one)
        check(other)
        for index, its in enumerate(rows):
            for place in range(-len(its.ids), 0) if its.wants_all else [-1]:
                if its.wants_scores:
                    same = found.row(index, place), wanted.row(index, place)
                    assert np.abs(same[0] - same[1]).max() <= 2e-4


def alone_in(kind: PassKind, others: int) -> np.ndarray:
    """Scores of one sequence in a pass of this shape with so many others beside it."""
    backend = recorded()
    for number in range(others + 1):
        feed(backend, number, prompt(9 + number, number))
    assert backend._recorded is not None
    place = backend.settings.ctx, [kind], backend.settings.vocab_size, torch.device("cpu")
    parts = backend._decoder, backend._pools, backend._tables.spans
    passes = backend._recorded = RecordedPasses(*parts, *place)
    assert passes.record(lambda done, total: True)
    rows = [Row(n, 9 + n, prompt(1, 50 + n), True) for n in range(others + 1)]
    return backend.forward(rows).row(0)


def test_what_pads_a_pass_changes_no_bit() -> None:
    """Free blocks, the sentinel too, are full of NaN."""
    kind = PassKind(8, 1, 8)
    alone = alone_in(kind, 0)
    assert np.isfinite(alone).all()
    for others in (1, 4, 7):
        assert np.array_equal(alone_in(kind, others), alone)


def test_recording_touches_no_block() -> None:
    backend = paged_backend(records=True)
    before = [pool.data.clone() for pool in backend._pools]
    backend.warm_up(lambda done, total: True)
    for pool, old in zip(backend._pools, before, strict=True):
        assert torch.equal(pool.data, old)


def test_recording_tells_its_progress_and_can_be_stopped() -> None:
    seen: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> bool:
        seen.append((done, total))
        return done < 2

    with pytest.raises(LoadingStopped):
        paged_backend(records=True).warm_up(stop)
    assert [done for done, _ in seen] == [0, 1, 2]
    assert len({total for _, total in seen}) == 1


# ---- the order of things


def test_a_step_never_overwrites_what_the_device_has_still_to_read() -> None:
    """Steps are handed over faster than they are done; a block that one of them has given back is
    written by the next one only behind it.
    """
    device = LateDevice()
    upload, runner = device.upload(), device.runner
    late, plain = recorded(), paged_backend()
    parts = late._decoder, late._pools, late._tables.spans
    some = [PassKind(2, 1, 2), PassKind(1, 16, 1)]
    place = late.settings.ctx, some, late.settings.vocab_size, torch.device("cpu")
    passes = RecordedPasses(*parts, *place, runner(torch.device("cpu")), upload)
    late._recorded = passes
    assert passes.record(lambda done, total: True)
    for number in range(2):
        for backend in (late, plain):
            backend.forward([Row(number, 0, prompt(10, number), True)])
    late.drop(1)
    plain.drop(1)
    for backend in (late, plain):
        backend.forward([Row(2, 0, prompt(12, 9), False)])
    rows = [Row(0, 10, (7,), True), Row(2, 12, (8,), True)]
    found, wanted = late.forward(rows), plain.forward(rows)
    assert device.told
    device.finish()
    for index in range(2):
        assert np.abs(found.row(index) - wanted.row(index)).max() <= 2e-4


# ---- candidates that came with the pass


def arrived(*parts: torch.Tensor) -> Arrival:
    return Arrival(parts, lambda: None)


def test_packed_candidates_are_those_of_the_rows() -> None:
    logits = torch.randn(3, 50)
    logits[1] = logits[1].round()
    logits[2, 7] = torch.nan
    places = [range(i, i + 1) for i in range(3)]
    plain = TensorScores(logits, places)
    chosen = TensorScores(logits, places, arrived(best_candidates(logits, 50, 20)), 20)
    for k in (0, 1, 5, 20, 33):
        for index in range(2):
            one, other = chosen.candidates(index, k), plain.candidates(index, k)
            assert one.ids.tolist() == other.ids.tolist()
            assert one.logits.tolist() == other.logits.tolist()
            assert one.log_sum_exp() == pytest.approx(other.log_sum_exp(), rel=1e-6)
            assert one.finite
        assert not chosen.candidates(2, k).finite
