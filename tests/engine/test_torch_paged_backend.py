"""The paged backend over tiny random decoders: whatever shared, moved or cut the blocks, the scores
are those of a sequence that was read at once, and free blocks are full of NaN all the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.backends.base import Parked, Row
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.backends.torch_paged.held import Held
from engine.backends.torch_paged.parked_state import new_state, read_state
from engine.errors import Interrupted, OutOfMemory, OutOfRoom, UsageError
from models.config import ModelConfig, RopeScaling
from models.decoder import Decoder
from tests.engine.paged_support import Logits, check, feed, greedy, poison, prompt
from tests.engine.tiny_decoders import WINDOWS, paged_backend, tiny_config, tiny_decoder

kinds = pytest.mark.parametrize("kind", WINDOWS)
BLOCK = 4
IDS = prompt(3 * BLOCK)


def close(one: Logits, other: Logits, tolerance: float = 2e-4) -> bool:
    assert np.isfinite(one).all()
    return bool(np.abs(one - other).max() <= tolerance)


def cold_answer(kind: str, ids: tuple[int, ...], count: int = 12) -> tuple[int, ...]:
    backend = paged_backend(kind)
    return greedy(backend, 0, feed(backend, 0, ids), count)


# ---- the same ids, however a sequence came to be


@kinds
@pytest.mark.parametrize("block", [4, 16])
@pytest.mark.parametrize("chunk", [1, 3, 4, 16, 64])
def test_pieces_of_any_size_give_the_same_answer(kind: str, block: int, chunk: int) -> None:
    ids = prompt(70)
    backend = paged_backend(kind, block=block)
    poison(backend)
    assert greedy(backend, 0, feed(backend, 0, ids, chunk), 12) == cold_answer(kind, ids)


@kinds
def test_a_hit_of_every_length_gives_the_same_answer(kind: str) -> None:
    expected = cold_answer(kind, IDS)
    backend = paged_backend(kind)
    for hit in range(1, len(IDS)):
        feed(backend, 0, IDS[:hit])
        backend.mark(0)
        feed(backend, 0, prompt(20, seed=hit))
        backend.fork(0, 1, backend.length(0))
        assert backend.truncate(1, hit) == hit
        assert greedy(backend, 1, feed(backend, 1, IDS[hit:]), 12) == expected
        parked = backend.park(0)
        check(backend)
        assert backend.restore(parked, 0, hit) == hit
        assert greedy(backend, 0, feed(backend, 0, IDS[hit:]), 12) == expected
        backend.drop(0)
        backend.drop(1)
    check(backend)
    assert backend.room() == paged_backend(kind).room()


@kinds
def test_seven_others_in_the_batch_change_nothing(kind: str) -> None:
    prompts = [prompt(5 + 9 * number, seed=number) for number in range(8)]
    backend = paged_backend(kind, max_rows=512)
    poison(backend)
    rows = [Row(number, 0, ids, True) for number, ids in enumerate(prompts)]
    scores = backend.forward(rows)
    answers = [[int(scores.row(number).argmax())] for number in range(8)]
    for _ in range(11):
        check(backend)
        rows = [Row(n, backend.length(n), (answers[n][-1],), True) for n in range(8)]
        scores = backend.forward(rows)
        for number in range(8):
            answers[number].append(int(scores.candidates(number, 1).ids[0]))
    for ids, answer in zip(prompts, answers, strict=True):
        assert tuple(answer) == cold_answer(kind, ids)


@kinds
def test_answers_and_prompts_share_a_pass(kind: str) -> None:
    """One sequence decodes while others are read in pieces beside it."""
    first, second, third = prompt(20, 1), prompt(33, 2), prompt(9, 3)
    backend = paged_backend(kind)
    answer = [int(feed(backend, 0, first).argmax())]
    read = 0
    while read < len(second):
        piece = second[read : read + 7]
        rows = [
            Row(0, backend.length(0), (answer[-1],), True),
            Row(1, read, piece, read + 7 >= len(second)),
        ]
        if read == 14:
            rows.insert(0, Row(2, 0, third, True))
        scores = backend.forward(rows)
        check(backend)
        answer.append(int(scores.row(len(rows) - 2).argmax()))
        read += 7
        if len(rows) == 3:
            beside = scores.row(0)
    assert tuple(answer) == cold_answer(kind, first, len(answer))
    assert greedy(backend, 2, beside, 12) == cold_answer(kind, third)
    assert greedy(backend, 1, scores.row(1), 12) == cold_answer(kind, second)


@kinds
@pytest.mark.parametrize("kv_type", ["f32", "f16", "bf16", "k8", "q8", "k8v4", "fp8"])
def test_moving_a_state_changes_no_bit(kind: str, kv_type: str) -> None:
    backend = paged_backend(kind, kv_type=kv_type)
    feed(backend, 0, prompt(37), 8)
    backend.mark(0)
    expected = feed(backend, 0, IDS)
    assert np.isfinite(expected).all()
    backend.truncate(0, 37)
    assert np.array_equal(feed(backend, 0, IDS), expected)
    backend.truncate(0, 37)
    backend.fork(0, 3, 37)
    assert np.array_equal(feed(backend, 3, IDS), expected)
    assert np.array_equal(feed(backend, 0, IDS), expected)
    backend.truncate(3, 37)
    parked = backend.park(3)
    check(backend)
    for _ in range(2):
        assert backend.restore(parked, 5, parked.length) == 37
        assert np.array_equal(feed(backend, 5, IDS), expected)
        backend.drop(5)


@kinds
def test_drafts_that_are_refused_leave_no_trace(kind: str) -> None:
    """Scores after every id, and a cut back to any of them, also where a window slides."""
    ids = prompt(50)
    for kept in range(1, 4):
        backend = paged_backend(kind, spare=3)
        logits = feed(backend, 0, ids)
        scores = backend.forward([Row(0, 50, (int(logits.argmax()), 7, 8, 9), True, True)])
        draft = scores.row(0, kept - 1)
        assert backend.truncate(0, 50 + kept) == 50 + kept
        check(backend)
        slow = paged_backend(kind)
        feed(slow, 0, ids)
        alone = feed(slow, 0, (int(logits.argmax()), 7, 8, 9)[:kept], 1)
        assert close(draft, alone)
        assert greedy(backend, 0, draft, 8) == greedy(slow, 0, alone, 8)


# ---- random histories


class Twin:
    """Knows the ids of each sequence, and what a sequence that is read at once scores."""

    def __init__(self, make: Callable[[], TorchPagedBackend], tolerance: float) -> None:
        self.backend = make()
        self.cold = make()
        self.tolerance = tolerance
        self.ids: dict[int, tuple[int, ...]] = dict.fromkeys(range(8), ())
        self.parked: list[tuple[Parked, tuple[int, ...]]] = []

    def add(self, sequences: list[int], new: list[tuple[int, ...]]) -> None:
        starts = [len(self.ids[s]) for s in sequences]
        rows = [Row(s, at, ids, True) for s, at, ids in zip(sequences, starts, new, strict=True)]
        scores = self.backend.forward(rows)
        for index, row in enumerate(rows):
            self.ids[row.sequence] += row.ids
            expected = feed(self.cold, 0, self.ids[row.sequence])
            self.cold.drop(0)
            assert close(scores.row(index), expected, self.tolerance)

    def move(self, chance: random.Random) -> None:
        move = chance.choice(["fork", "truncate", "mark", "drop", "park", "restore", *["add"] * 4])
        one, other = chance.sample(range(8), 2)
        length = len(self.ids[one])
        cut = chance.randint(0, length)
        if move == "add":
            few = [s for s in chance.sample(range(8), 3) if len(self.ids[s]) < 80]
            new = [prompt(chance.choice([1, 2, 5, 11]), chance.randrange(99)) for _ in few]
            if few:
                self.add(few, new)
        elif move == "fork":
            self.backend.fork(one, other, cut)
            self.ids[other] = self.ids[one][: self.backend.length(other)]
        elif move == "truncate":
            self.ids[one] = self.ids[one][: self.backend.truncate(one, cut)]
        elif move == "mark":
            self.backend.mark(one)
        elif move == "drop":
            self.backend.drop(one)
            self.ids[one] = ()
        elif move == "park" and length:
            self.parked = [*self.parked[-3:], (self.backend.park(one), self.ids[one])]
            self.ids[one] = ()
        elif move == "restore" and self.parked:
            self.backend.drop(one)
            self.ids[one] = ()
            parked, ids = chance.choice(self.parked)
            kept = self.backend.restore(parked, one, chance.randint(0, parked.length))
            self.ids[one] = ids[:kept]


TOLERANCES = {"f32": 2e-4, "bf16": 0.2, "q8": 0.3, "k8v4": 1.0, "fp8": 0.5}
"""Another order of sums turns a number over a rounding border now and then."""


@kinds
@pytest.mark.parametrize(("kv_type", "tolerance"), TOLERANCES.items())
def test_any_history_scores_as_if_it_were_read_at_once(
    kind: str, kv_type: str, tolerance: float
) -> None:
    # Room for about three of eight sequences of full length.
    twin = Twin(lambda: paged_backend(kind, kv_type=kv_type, pool_bytes=250_000), tolerance)
    poison(twin.backend)
    chance = random.Random(kind + kv_type)
    for _ in range(120 if kv_type == "f32" else 50):
        try:
            twin.move(chance)
        except OutOfRoom:
            twin.backend.drop(chance.randrange(8))
        check(twin.backend)
        for sequence, ids in twin.ids.items():
            assert twin.backend.length(sequence) == len(ids)
    for sequence in range(8):
        twin.backend.drop(sequence)
    check(twin.backend)
    assert twin.backend.room() == twin.cold.room()


# ---- what stops a pass


@kinds
@pytest.mark.parametrize("after", [0, 1])
def test_an_interrupted_pass_leaves_everything_as_it_was(kind: str, after: int) -> None:
    backend = paged_backend(kind)
    feed(backend, 0, IDS[:5])
    before = backend.room()
    calls = iter(range(100))
    real = backend._decoder.forward

    def interrupting(given: object, pools: object, is_stopped: Callable[[], bool]) -> object:
        def asked() -> bool:
            if next(calls) == after:
                backend.interrupt()
            return is_stopped()

        return real(given, pools, asked)  # type: ignore[arg-type]

    backend._decoder.forward = interrupting  # type: ignore[method-assign, assignment]
    with pytest.raises(Interrupted) as stopped:
        backend.forward([Row(0, 5, IDS[5:], True), Row(1, 0, IDS, True)])
    assert stopped.value.rows_done == (0, 0)
    assert (backend.length(0), backend.length(1)) == (5, 0)
    assert backend.room() == before
    check(backend)
    assert greedy(backend, 0, feed(backend, 0, IDS[5:]), 12) == cold_answer(kind, IDS)


def test_an_interruption_while_idle_is_harmless() -> None:
    backend = paged_backend()
    backend.interrupt()
    assert np.isfinite(feed(backend, 0, IDS)).all()


@pytest.mark.parametrize(
    ("error", "seen"),
    [(torch.OutOfMemoryError("no"), OutOfRoom), (RuntimeError("broken"), RuntimeError)],
)
def test_a_pass_that_breaks_gives_its_blocks_back(
    error: Exception, seen: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = paged_backend("window")
    feed(backend, 0, IDS)
    backend.fork(0, 1, len(IDS) - 1)
    before = backend.length(0), backend.length(1)

    def broken(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(backend._decoder, "forward", broken)
        with pytest.raises(seen):
            backend.forward([Row(0, len(IDS), prompt(40), True)])
    assert (backend.length(0), backend.length(1)) == before
    check(backend)
    expected = paged_backend("window")
    feed(expected, 0, IDS)
    assert close(feed(backend, 0, prompt(40)), feed(expected, 0, prompt(40)))


@kinds
def test_without_room_nothing_is_changed(kind: str) -> None:
    backend = paged_backend(kind, ctx=64, max_rows=64, pool_bytes=40_000)
    feed(backend, 0, prompt(60))
    before = backend.room()
    rows = [Row(number, 0, prompt(21, number), True) for number in (1, 2, 3)]
    with pytest.raises(OutOfRoom):
        backend.forward(rows)
    assert backend.room() == before
    assert [backend.length(number) for number in range(4)] == [60, 0, 0, 0]
    check(backend)
    backend.drop(0)
    backend.forward(rows[:1])


# ---- what a person can set


def test_a_pool_that_holds_no_full_sequence_is_refused_with_numbers() -> None:
    with pytest.raises(OutOfMemory, match=r"4096.*MiB"):
        paged_backend(ctx=4096, pool_bytes=1 << 20)


@kinds
@pytest.mark.parametrize("pool_bytes", [300_000, 1 << 20, 1 << 30])
def test_the_budget_is_kept_and_one_full_sequence_fits(kind: str, pool_bytes: int) -> None:
    backend = paged_backend(kind, pool_bytes=pool_bytes, max_rows=32)
    assert backend.pool_bytes <= pool_bytes
    assert backend.pool_bytes == sum(pool.data.nbytes for pool in backend._pools)
    feed(backend, 0, prompt(128), 32)
    assert backend.length(0) == 128


def test_q4_is_refused_with_figures_where_it_changes_the_answers() -> None:
    for head_size in (32, 20):
        with pytest.raises(UsageError, match=r"diverge by \d+\.\d+ nats from f32.*0\.02.*95 %"):
            paged_backend(head_size=head_size, kv_type="q4", test_ids=prompt(200))


def test_q4_is_used_where_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that looks at nothing but the last token bears everything."""
    from tests.engine import tiny_decoders

    def deaf(config: ModelConfig) -> Decoder:
        decoder = tiny_decoder(config)
        for layer in decoder.weights.layers:
            assert isinstance(layer.o, torch.Tensor)
            layer.o.zero_()
        return decoder

    monkeypatch.setattr(tiny_decoders, "tiny_decoder", deaf)
    backend = paged_backend(kv_type="q4", test_ids=prompt(200))
    assert backend.facts.kv_type == "q4"
    assert np.isfinite(feed(backend, 0, prompt(40))).all()


def test_states_of_other_settings_and_damaged_ones_are_not_restored() -> None:
    backend = paged_backend("window")
    feed(backend, 0, prompt(30))
    parked = backend.park(0)
    for other in (
        paged_backend("window", kv_type="f16"),
        paged_backend("window", block=8),
        paged_backend("full"),
    ):
        assert other.restore(parked, 0, 30) == 0
        other.validate()
    data = parked.data
    older = data[:4] + b"\x01\x00" + data[6:]
    torn = data[:40] + b"\xff" * 40 + data[80:]
    for damaged in (b"", data[:10], data[:-1], data + b"x", torn, older):
        assert backend.restore(Parked(damaged, 30, None), 0, 30) == 0
        check(backend)
    assert backend.restore(parked, 0, 30) == 30


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held.runs[0].blocks.reverse() or setattr(held, "length", 31 + 4),
        lambda held: held.runs[0].blocks.__setitem__(0, held.runs[0].blocks[1]),
        lambda held: held.runs[0].blocks.__setitem__(0, 999),
        lambda held: held.runs[0].blocks.__setitem__(0, 0),
        lambda held: held.runs[1].blocks.pop(),
        lambda held: setattr(held.runs[1], "first", held.runs[1].first + 1),
        lambda held: setattr(held.runs[1], "first", -1),
        lambda held: held.marks.update({99: held.runs}),
    ],
)
def test_books_that_contradict_themselves_are_not_restored(change: Callable[[Held], None]) -> None:
    backend = paged_backend("window")
    feed(backend, 0, prompt(30))
    parked = backend.park(0)
    sizes = backend._record_bytes
    state = read_state(parked.data, backend._made_by, sizes)
    assert state is not None
    change(state.books.held)
    data, records = new_state(backend._made_by, state.books, sizes)
    for out, record in zip(records, state.records, strict=True):
        out[:] = record
    assert backend.restore(Parked(data, 30, None), 0, 30) == 0
    check(backend)


def test_a_parked_window_names_the_lengths_it_can_be_cut_to() -> None:
    backend = paged_backend("window")
    feed(backend, 0, prompt(20))
    backend.mark(0)
    feed(backend, 0, prompt(60), 5)
    parked = backend.park(0)
    assert parked.positions is not None
    assert {20, 77, 78, 79, 80} <= set(parked.positions)
    assert not {*range(1, 20), *range(21, 73)} & set(parked.positions)
    for length in range(1, 81):
        kept = backend.restore(parked, 0, length)
        assert kept == max((at for at in parked.positions if at <= length), default=0)
        check(backend)
        backend.drop(0)


@pytest.mark.parametrize(
    "row",
    [
        Row(0, 1, (1,), True),
        Row(0, 0, (), True),
        Row(0, 0, (1,) * 129, True),
        Row(9, 0, (1,), True),
    ],
)
def test_rows_that_do_not_fit_the_books_are_refused(row: Row) -> None:
    backend = paged_backend()
    with pytest.raises(ValueError, match=r"sequence|tokens"):
        backend.forward([row])
    check(backend)


def test_keys_turned_for_another_context_are_not_reused() -> None:
    scaling = RopeScaling("dynamic", factor=2.0, original_context=64)
    plain = tiny_config("full")
    layers = tuple(replace(layer, rope_scaling=scaling) for layer in plain.layers)
    config = replace(plain, layers=layers)
    weights = tiny_decoder(plain).weights

    def opened(ctx: int) -> TorchPagedBackend:
        settings = paged_backend("full", ctx=ctx).settings
        return TorchPagedBackend(Decoder(config, weights, ctx), config, settings)

    short, same, long = opened(64), opened(64), opened(128)
    assert short.facts.numerics == same.facts.numerics != long.facts.numerics
    feed(short, 0, prompt(30))
    parked = short.park(0)
    assert long.restore(parked, 0, 30) == 0
    assert same.restore(parked, 0, 30) == 30
