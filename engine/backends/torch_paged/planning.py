"""How much memory a model takes on our own backend, and the longest context that fits.

Arithmetic only, without torch: refuses nothing, takes nothing. What it predicts of the KV pools is
what the backend allocates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.backends.torch_paged.held import Span
from engine.backends.torch_paged.kv_types import kv_format
from engine.backends.torch_paged.pass_kinds import MOST_CHECKED, RECORDED_TOKENS
from engine.backends.torch_paged.settings import MAX_ROWS, PagedSettings
from engine.backends.torch_paged.sizes import block_counts, demand
from models.config import ModelConfig
from models.decoder_memory import PassSize, compute_bytes, workspace_bytes
from models.kernel_memory import (
    VALUE_BYTES,
    has_kernels,
    kept_bytes,
    pass_bytes,
    recorded_bytes,
)
from models.kv_groups import kv_groups, kv_layouts
from models.memory import (
    DEFAULT_LIMIT,
    HIGHEST_CONTEXT,
    LEAST_CONTEXT,
    MEMORY_SHARE,
    ContextChoice,
    MemoryEstimate,
    trained_context,
)
from models.model_description import ModelDescription
from models.own_decoder import DTYPE_BYTES, loaded_bytes, packed_types
from models.sizes import show_bytes

GPU_SHARE = 0.9
"""Of the device's free memory; the rest is for the driver and for other programs."""
CPU_ROWS = 520
"""Tokens of one pass on a CPU: a piece of a prompt, and a row for each other sequence."""
VENDOR_BYTES = 2 * 32 << 20
"""Working room of the vendor's products, which PyTorch takes at the first of them on each stream:
that of the passes, and that on which they are recorded.
"""
_STEP = 256
_CPU_SEQUENCES = 2
"""Sequences of full length that a pool on a CPU is made for: nobody is meant to chat there."""


@dataclass(frozen=True, slots=True)
class PagedDevice:
    """Where a model is to run."""

    name: str
    """`cpu` or `cuda`."""
    capability: tuple[int, int] | None
    """None: a CPU."""
    free_bytes: int

    @property
    def dtype(self) -> str:
        """Of the activations: exact on a CPU, where only proofs run."""
        return "float32" if self.capability is None else "bfloat16"

    @property
    def room(self) -> int:
        share = MEMORY_SHARE if self.capability is None else GPU_SHARE
        return int(self.free_bytes * share)


@dataclass(frozen=True, slots=True)
class PagedPlan:
    settings: PagedSettings
    needed: ContextChoice
    """The least that the context takes, and whether that fits."""
    predicted: MemoryEstimate
    """What will really be taken."""


def paged_settings(
    config: ModelConfig,
    device: PagedDevice,
    kv_type: str = "auto",
    kernels: str = "auto",
    weights: str = "auto",
) -> PagedSettings:
    """All but context and pool size, which a plan chooses."""
    return PagedSettings(
        ctx=0,
        pool_bytes=0,
        vocab_size=config.vocab_size,
        device=device.name,
        dtype=device.dtype,
        kv_type=kv_type,
        max_rows=CPU_ROWS if device.capability is None else MAX_ROWS,
        kernels=kernels,
        weights=weights,
        records=device.capability is not None and kernels != "reference",
    )


def plan_paged(
    description: ModelDescription,
    config: ModelConfig,
    device: PagedDevice,
    settings: PagedSettings,
    wanted: int | None = None,
) -> PagedPlan:
    """`settings`: everything but context and pool size. `wanted`: the context asked for; None: the
    longest that fits, up to 32,768.

    Raises UsageError for a kv_type that the device or the model cannot take.
    """
    sizer = _Sizer(description, config, settings, device)
    trained, reason = trained_context(description)
    if wanted is not None:
        ctx = max(min(wanted, HIGHEST_CONTEXT), 1)
        over = ctx > trained
        asked = f"more than the {trained:,} tokens the model was trained on"
        return sizer.plan(ctx, asked if over else "as asked for")
    limit = min(trained, DEFAULT_LIMIT)
    if limit < trained:
        reason = f"the model takes {trained:,}; ask for more with ctx"
    ctx = _longest(limit, lambda length: sizer.least(length).total <= device.room)
    if ctx < limit:
        reason = f"what fits into {show_bytes(device.room)}; the model takes {trained:,}"
    return sizer.plan(ctx, reason)


def kernel_compute(config: ModelConfig, settings: PagedSettings, is_packed: bool) -> int:
    """Bytes that a backend with kernels takes beside weights and KV, once it is warm."""
    sequences = settings.max_sequences
    drafts = sequences + settings.spare
    reading = PassSize(settings.max_rows, sequences, settings.ctx)
    drafting = PassSize(drafts, drafts, settings.ctx)
    kept = workspace_bytes(config, RECORDED_TOKENS, MOST_CHECKED, VALUE_BYTES)
    kept += kept_bytes(config, reading, drafting, sequences, is_packed)
    kept += recorded_bytes(config, MOST_CHECKED, is_packed) + VENDOR_BYTES
    return kept + max(pass_bytes(config, size, is_packed) for size in (reading, drafting))


class _Sizer:
    def __init__(
        self,
        description: ModelDescription,
        config: ModelConfig,
        settings: PagedSettings,
        device: PagedDevice,
    ) -> None:
        self._config = config
        self._settings = settings
        self._device = device
        packing = settings.repacks, settings.rounds
        self._packed = packed_types(description, *packing)
        self._weights = loaded_bytes(description, config, settings.dtype, *packing)
        self._kv = kv_format(settings.kv_type, settings.dtype, device.capability)
        layouts = kv_layouts(config, self._kv, settings.block)
        self._record_bytes = tuple(layout.record_bytes for layout in layouts)
        self._spans = [Span(group.window, settings.block) for group in kv_groups(config)]

    def plan(self, ctx: int, reason: str) -> PagedPlan:
        least = self.least(ctx)
        room = self._device.room
        spare = max(room - least.weights - least.compute, 0)
        pool_bytes = max(min(self._pool_goal(ctx), spare), least.kv)
        settings = replace(self._settings, ctx=ctx, pool_bytes=pool_bytes)
        counts = block_counts(self._spans, self._record_bytes, settings)
        taken = replace(least, kv=self._bytes(counts))
        choice = ContextChoice(ctx, reason, least.total <= room, least)
        return PagedPlan(settings, choice, taken)

    def least(self, ctx: int) -> MemoryEstimate:
        settings = replace(self._settings, ctx=ctx)
        kv = self._bytes([demand(span, settings).least for span in self._spans])
        return MemoryEstimate(self._weights, kv, self._compute(ctx))

    def _pool_goal(self, ctx: int) -> int:
        settings = replace(self._settings, ctx=ctx)
        if self._device.capability is None:
            settings = replace(settings, max_sequences=_CPU_SEQUENCES)
        return self._bytes([demand(span, settings).most for span in self._spans])

    def _compute(self, ctx: int) -> int:
        """Of the larger pass: pieces of prompts, or drafts, whose scores are all wanted."""
        sequences = self._settings.max_sequences
        drafts = sequences + self._settings.spare
        reading = PassSize(self._settings.max_rows, sequences, ctx)
        drafting = PassSize(drafts, drafts, ctx)
        value_bytes = DTYPE_BYTES[self._settings.dtype]
        static = 0
        if self._settings.records:
            static = workspace_bytes(self._config, RECORDED_TOKENS, MOST_CHECKED, value_bytes)
            if has_kernels(self._config):
                return kernel_compute(self._config, self._settings, bool(self._packed))
        return static + max(
            compute_bytes(self._config, size, value_bytes, self._kv, self._packed)
            for size in (reading, drafting)
        )

    def _bytes(self, counts: Sequence[int]) -> int:
        return sum(n * size for n, size in zip(counts, self._record_bytes, strict=True))


def _longest(limit: int, fits: Callable[[int], bool]) -> int:
    """The most steps that fit, by halving; the least context when not even that fits."""
    low, high = min(LEAST_CONTEXT, limit), limit
    if fits(high):
        return high
    while high - low > _STEP:
        middle = (low + high) // 2 // _STEP * _STEP
        if middle <= low:
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
