"""A tiny model through all kernels, from ids to candidates, against plain torch on the same
weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from kernels.hadamard import hadamard
from models.config import LayerConfig, ModelConfig
from models.decoder import Decoder
from models.ops import KernelSettings
from models.parameters import parameter_shapes
from models.weights import Weights, weights_from_slots
from tests.kernels.pools import relative
from tests.models.paged import PagedRun

HOPPER = (9, 0)
CONFIG = ModelConfig(
    family="qwen3",
    vocab_size=61,
    hidden=64,
    heads=4,
    kv_heads=2,
    head_size=16,
    feed_forward=96,
    layers=(LayerConfig(window=24), LayerConfig(has_rope=False)),
    context=64,
    norm_eps=1e-6,
    qk_norm=True,
    attention_scale=0.25,
    rotary_size=16,
)
GEMMA = replace(
    CONFIG,
    family="gemma2",
    post_norms=True,
    qkv_bias=True,
    norm_offset=1.0,
    activation="gelu_tanh",
    attention_cap=5.0,
    logit_cap=3.0,
    embedding_scale=8.0,
)
TOLERANCE = {"bf16": 0.02, "q8": 0.03}
"""Of results in bf16 after two layers, which every product rounds once."""


def weights(config: ModelConfig) -> Weights:
    made = torch.Generator().manual_seed(0)
    slots = {
        slot: (torch.randn(shape, generator=made) * (0.3 if len(shape) == 1 else 0.15)).bfloat16()
        for slot, shape in parameter_shapes(config).items()
    }
    return weights_from_slots(slots, config)


@pytest.mark.parametrize(
    ("config", "kv", "passes"),
    [
        (CONFIG, "q8", [(range(20), ()), ((5,), range(30, 48))]),
        (GEMMA, "bf16", [(range(9), ()), ((1, 2, 3), (4,))]),
    ],
    ids=["qwen3", "gemma2"],
)
def test_kernels_compute_what_plain_torch_does(
    config: ModelConfig, kv: str, passes: list[tuple[Sequence[int], Sequence[int]]]
) -> None:
    """A prompt, a step of drafts, and an answer beside the next prompt."""
    given = weights(config)
    kernels = Decoder(config, given, kernels=KernelSettings(HOPPER, "auto"))
    plain = Decoder(config, given, kernels=KernelSettings(None, "reference"))
    runs = [PagedRun(one, 2, 64, kv, block=16) for one in (kernels, plain)]
    assert not kernels.missing_kernels(runs[0].pools, config.vocab_size)
    assert kernels.weights.layers[0].qkv is not None
    for first, second in passes:
        found, wanted = (run.step(tuple(first), tuple(second)) for run in runs)
        assert torch.isfinite(found).all()
        assert relative(found, wanted) <= TOLERANCE[kv]


def test_given_room_changes_no_bit() -> None:
    config = replace(CONFIG, layers=CONFIG.layers[:1])
    decoder = Decoder(config, weights(config), kernels=KernelSettings(HOPPER, "auto"))
    run = PagedRun(decoder, 1, 64, "q8", block=16)
    plain = run.step((3, 4))
    run.lengths = [0]
    forward, room = decoder.forward, decoder.workspace(4, 4)
    decoder.forward = lambda *given: forward(*given, room=room.part(2, 2))  # type: ignore[method-assign]
    assert torch.equal(run.step((3, 4)), plain)


def test_the_rotation_is_its_own_inverse() -> None:
    """What lets either implementation of attention read what either one stored."""
    x = torch.randn(3, 16)
    torch.testing.assert_close(hadamard(hadamard(x)), x)
