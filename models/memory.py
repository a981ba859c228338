"""How much memory a model needs, from the real sizes of its tensors and the shape of its layers.

Arithmetic only: it asks no system how much there is. All sizes are bytes, all lengths tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.model_description import ModelDescription
from models.sizes import show_bytes

KV_BYTES: dict[str, tuple[float, float]] = {
    "auto": (2, 2),
    "f16": (2, 2),
    "bf16": (2, 2),
    "k8": (34 / 32, 2),
    "q8": (34 / 32, 34 / 32),
    "k8v4": (34 / 32, 18 / 32),
    "q4": (18 / 32, 18 / 32),
}
"""Name of a KV type -> bytes of one K value and one V value."""

DEFAULT_UBATCH = 128
DEFAULT_CONTEXT = 4_096
"""Where a file does not say what it was trained on."""
DEFAULT_LIMIT = 32_768
"""Longest context chosen without being asked; the person can ask for more."""
LEAST_CONTEXT = 512
HIGHEST_CONTEXT = 16_777_216
"""Longer claims are taken for damage."""
MEMORY_SHARE = 0.8
"""Of the free memory; the rest is for parked conversations, the program and the system."""
FORK_CELLS = 512
"""KV cells above the context, for side jobs."""
_STEP = 256
"""llama.cpp rounds the cells of a context up to this."""
_FIXED_COMPUTE = 12 * 2**20
"""Small tensors of one pass; 2 to 8 MiB were measured above the terms below."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    weights: int
    kv: int
    """KV of all layers and the states of recurrent ones."""
    compute: int
    """The largest intermediate results of one pass."""

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.compute


@dataclass(frozen=True, slots=True)
class ContextChoice:
    ctx: int
    reason: str
    """In words, with numbers, for showing."""
    fits: bool
    """Whether weights, KV and compute stay inside the share of the free memory."""
    estimate: MemoryEstimate


def kv_bytes_per_token(description: ModelDescription, kv_type: str) -> float:
    """Bytes that one more token takes while every layer still grows."""
    return sum(_layer_bytes(description, kv_type))


def estimate(
    description: ModelDescription,
    ctx: int,
    kv_type: str = "auto",
    ubatch: int = DEFAULT_UBATCH,
    flash: bool = False,
    sequences: int = 4,
) -> MemoryEstimate:
    """`sequences`: how many conversations share the context, each with its window and state."""
    cells = _rounded(ctx + FORK_CELLS)
    kv = 0.0
    for layer, size in enumerate(_layer_bytes(description, kv_type)):
        kv += size * _layer_cells(description, layer, cells, ubatch, sequences)
    kv += description.shapes.recurrent_values * 4 * sequences
    compute = _compute_bytes(description, cells, ubatch, flash)
    return MemoryEstimate(description.weights_bytes, int(kv), compute)


def choose_context(
    description: ModelDescription,
    kv_type: str,
    free_bytes: int,
    wanted: int | None = None,
    flash: bool = False,
) -> ContextChoice:
    """The context to load with: as asked for, or the longest up to 32,768 that fits.

    A trained length that is absent, 0 or absurd is replaced, and the reason says so.
    """
    trained, reason = trained_context(description)
    room = int(free_bytes * MEMORY_SHARE)
    if wanted is not None:
        ctx = max(min(wanted, HIGHEST_CONTEXT), 1)
        if ctx > trained:
            reason = f"more than the {trained:,} tokens the model was trained on"
        else:
            reason = "as asked for"
        return _choice(description, ctx, kv_type, flash, room, reason)
    limit = min(trained, DEFAULT_LIMIT)
    if limit < trained:
        reason = f"the model takes {trained:,}; ask for more with ctx"
    ctx = _longest(description, kv_type, flash, room, limit)
    if ctx < limit:
        reason = f"what fits into {show_bytes(room)}; the model takes {trained:,}"
    return _choice(description, ctx, kv_type, flash, room, reason)


def trained_context(description: ModelDescription) -> tuple[int, str]:
    """The trained length to go by, and where it comes from."""
    claimed = description.ctx_train
    if claimed is None or claimed <= 0:
        return DEFAULT_CONTEXT, "the file does not say what the model was trained on"
    if claimed > HIGHEST_CONTEXT:
        return DEFAULT_CONTEXT, f"the file claims {claimed:,} tokens, which cannot be"
    return claimed, "what the model was trained on"


def _choice(
    description: ModelDescription, ctx: int, kv_type: str, flash: bool, room: int, reason: str
) -> ContextChoice:
    needed = estimate(description, ctx, kv_type, flash=flash)
    return ContextChoice(ctx, reason, needed.total <= room, needed)


def _longest(
    description: ModelDescription, kv_type: str, flash: bool, room: int, limit: int
) -> int:
    """The most steps that fit, by halving; the least context when not even that fits."""
    low, high = min(LEAST_CONTEXT, limit), limit
    if estimate(description, high, kv_type, flash=flash).total <= room:
        return high
    while high - low > _STEP:
        middle = (low + high) // 2 // _STEP * _STEP
        if middle <= low:
            break
        if estimate(description, middle, kv_type, flash=flash).total <= room:
            low = middle
        else:
            high = middle
    return low


def _layer_bytes(description: ModelDescription, kv_type: str) -> list[float]:
    key, value = KV_BYTES[kv_type]
    size = key * description.key_length + value * description.value_length
    return [heads * size for heads in description.kv_heads]


def _layer_cells(
    description: ModelDescription, layer: int, cells: int, ubatch: int, sequences: int
) -> int:
    if description.window is None or not description.window_layers[layer]:
        return cells
    return min(cells, _rounded(description.window * sequences + ubatch))


def _compute_bytes(description: ModelDescription, cells: int, ubatch: int, flash: bool) -> int:
    """The larger of logits and attention; right within 12 MiB on two models, 8k to 131k."""
    logits = description.vocab_size * ubatch * 4
    scores = 2 if flash else (description.heads + 1) * 4
    attention = cells * ubatch * scores
    width = max(description.feed_forward, description.embedding) * ubatch * 4 * 2
    return max(logits, attention, width) + description.embedding * ubatch * 4 * 2 + _FIXED_COMPUTE


def _rounded(cells: int) -> int:
    return -(-cells // _STEP) * _STEP
