"""What must hold of whole passes on a device, as in `op_checks.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import torch
from torch import Tensor

from engine.backends.base import Row
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.backends.torch_paged.held import Span
from engine.backends.torch_paged.pass_kinds import PassKind
from engine.backends.torch_paged.planning import kernel_compute
from engine.backends.torch_paged.settings import PagedSettings
from engine.backends.torch_paged.sizes import block_counts
from kernels.linear import Weight
from models.config import ModelConfig
from models.decoder import Decoder
from models.decoder_memory import weights_bytes
from models.kv_groups import kv_layouts
from models.ops import KernelSettings
from models.weights import Weights
from tests.bench.gpu import synthetic
from tests.bench.gpu.depth import Conversation
from tests.bench.gpu.rig import Rig
from tests.bench.gpu.shapes import TINY
from tests.gpu.op_checks import BLOCK, checked
from tests.gpu.ops import moved_planes
from tests.models.paged import PagedRun

ERROR = {"bf16": 0.02, "q8": 0.03}
"""Of logits after two layers, every product of which is rounded to bf16."""
PLAIN = KernelSettings(None, "reference")
BF16_BYTES = 2


def model(rig: Rig, weights: str, kv: str) -> float:
    """A prompt, drafts beside a prompt, and two answers, against float32 on the CPU."""
    given = synthetic.decoder(Rig(torch.device("cpu")), TINY, weights, PLAIN).weights
    exact = Decoder(TINY, mapped(given, lambda one: _numbers(one).float()), kernels=PLAIN)
    on_device = Decoder(TINY, mapped(given, lambda one: _put(one, rig)), kernels=rig.kernels)
    runs = [PagedRun(one, 2, 256, kind, BLOCK) for one, kind in ((on_device, kv), (exact, "f32"))]
    worst = 0.0
    for first, second in ((range(70), ()), ((1, 2, 3), range(40)), ((5,), (6,))):
        found, wanted = (run.step(tuple(first), tuple(second)) for run in runs)
        worst = max(worst, checked(found, wanted, ERROR[kv]))
    return worst


def replayed(rig: Rig, weights: str, kv: str) -> float:
    """A recorded step is the plain one bit for bit, at any length, in any order."""
    decoder = synthetic.decoder(rig, TINY, weights)
    held = Conversation(rig, decoder, kv, 512, (PassKind(1, 16, 1), PassKind(1, 1, 1)))
    for length in (0, 65, 300, 64):
        plain = held.read(length, 1).cpu()
        row = held.launched(length).row(0)
        assert torch.equal(torch.from_numpy(row)[None], plain), f"length {length} differs"
    return 0.0


def memory(rig: Rig, config: ModelConfig, ctx: int, rows: int = 2048) -> dict[str, float]:
    """Bytes that a plan predicts for a backend of plain weights that has read a prompt, and, on a
    device, what was taken at most.
    """
    rig.forget()
    settings = PagedSettings(
        ctx,
        2**40,
        config.vocab_size,
        device=rig.device.type,
        dtype="bfloat16",
        max_sequences=1,
        max_rows=rows,
        records=rig.is_gpu,
    )
    (layout,) = kv_layouts(config, "bf16")
    (blocks,) = block_counts([Span(None, settings.block)], [layout.record_bytes], settings)
    predicted = float(weights_bytes(config, BF16_BYTES) + blocks * layout.record_bytes)
    predicted += kernel_compute(config, settings, is_packed=False)
    before = 0
    if rig.is_gpu:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    backend = TorchPagedBackend(synthetic.decoder(rig, config, "bf16"), config, settings)
    backend.warm_up(lambda done, total: True)
    backend.forward([Row(0, 0, tuple(place % 256 for place in range(rows)), True)])
    if not rig.is_gpu:
        return {"predicted_bytes": predicted}
    taken = float(torch.cuda.max_memory_allocated() - before)
    return {"predicted_bytes": predicted, "taken_bytes": taken, "ratio": taken / predicted}


def mapped(weights: Weights, change: Callable[[Weight], Weight]) -> Weights:
    """Every parameter changed."""

    def changed(one: Weight | None) -> Weight | None:
        return None if one is None else change(one)

    layers = tuple(
        replace(layer, **{one.name: changed(getattr(layer, one.name)) for one in fields(layer)})
        for layer in weights.layers
    )
    return Weights(change(weights.embedding), layers, change(weights.norm), change(weights.output))


def _numbers(one: Weight) -> Tensor:
    return one if isinstance(one, Tensor) else one.dequantize()


def _put(one: Weight, rig: Rig) -> Weight:
    return one.to(rig.device) if isinstance(one, Tensor) else moved_planes(rig, one)
