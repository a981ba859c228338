"""What kernels are predicted to take beside weights and KV is what passes of them allocate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from triton.runtime.jit import JITFunction

from kernels.tiles import DECODE, VERIFY_COUNT
from kernels.triton import linear
from kernels.triton.work import MOST_TILES
from kernels.weight_planes import empty_planes
from models.config import ModelConfig
from models.decoder import Decoder
from models.decoder_memory import PassSize
from models.kernel_memory import (
    COUNTERS,
    DECODE_SHARES,
    FEW_ROWS,
    SHARES_ROOM,
    VERIFY_SHARES,
    has_kernels,
    kept_bytes,
    pass_bytes,
    recorded_bytes,
)
from models.ops import KernelSettings
from models.parameters import parameter_shapes
from models.weights import Matrix, weights_from_slots
from tests.bench.gpu.shapes import SHAPES
from tests.kernels.triton.meta_model import CONFIG, EXPERTS, GEMMA, decoder, empty, pools, step
from tests.models.peak_bytes import PeakBytes

ROWS, SEQUENCES, SPARE = 2048, 8, 64
CHECKED = 64
SMALL_CONFIG = replace(SHAPES["0.6B"], layers=SHAPES["0.6B"].layers[:2], tied=False)


def decoder_of(config: ModelConfig, is_packed: bool) -> Decoder:
    """With the embedding and the output like the matrices of the layers."""
    if not is_packed:
        return decoder(config)
    slots = {
        slot: planes(shape) if len(shape) > 1 else empty(*shape)
        for slot, shape in parameter_shapes(config).items()
    }
    return Decoder(config, weights_from_slots(slots, config), kernels=KernelSettings((9, 0)))


def planes(shape: tuple[int, ...]) -> Matrix:
    return empty_planes("Q4_K", shape, torch.device("meta"))


@pytest.mark.parametrize(
    ("config", "is_packed"),
    [(CONFIG, False), (CONFIG, True), (GEMMA, False), (SMALL_CONFIG, False), (SMALL_CONFIG, True)],
)
def test_memory_is_predicted(
    config: ModelConfig, is_packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of a load: after the largest passes all that come find room."""
    model, held = decoder_of(config, is_packed), pools(config, "q8")
    drafts = SEQUENCES + SPARE
    reading, drafting = PassSize(ROWS, SEQUENCES, ROWS), PassSize(drafts, drafts, drafts)
    # What a kernel computes takes no memory: none is compiled.
    monkeypatch.setattr(JITFunction, "run", lambda *args, **kwargs: None)
    with PeakBytes() as kept:
        for new, wanted in (
            ([1] * (SEQUENCES - 1) + [ROWS - SEQUENCES + 1], SEQUENCES),
            ([drafts // SEQUENCES] * SEQUENCES, drafts),
        ):
            model.forward(step(config, new, wanted), held)
        model.ops.settle()
        predicted = kept_bytes(config, reading, drafting, SEQUENCES, is_packed)
        assert kept.now == pytest.approx(predicted, rel=0.03)
        for size, new in (
            (PassSize(SEQUENCES, SEQUENCES, ROWS), [1] * SEQUENCES),
            (reading, [ROWS]),
            (drafting, [drafts // SEQUENCES] * SEQUENCES),
        ):
            given = step(config, new, size.wanted)
            with PeakBytes() as taken:
                model.forward(given, held)
            assert taken.peak == pytest.approx(pass_bytes(config, size, is_packed), rel=0.03)
        room = model.workspace(CHECKED, CHECKED)
        given = step(config, [8] * (CHECKED // 8), CHECKED)
        with PeakBytes() as taken:
            model.forward(given, held, room=room)
        assert taken.peak == recorded_bytes(config, CHECKED, is_packed)


def test_experts_and_rare_heads_are_not_counted_here() -> None:
    assert has_kernels(CONFIG)
    assert has_kernels(GEMMA)
    assert not has_kernels(EXPERTS)
    assert not has_kernels(replace(CONFIG, head_size=112))
    assert not has_kernels(replace(CONFIG, heads=64, kv_heads=2))


def test_constants_are_those_of_the_kernels() -> None:
    assert linear.room_bytes() == SHARES_ROOM
    assert linear.MOST_ROWS == FEW_ROWS
    assert 4 * MOST_TILES == COUNTERS
    assert (DECODE.count, VERIFY_COUNT) == (DECODE_SHARES, VERIFY_SHARES)
