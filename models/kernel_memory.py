"""How much memory a GPU's kernels take beside weights and KV: rooms that are kept, and what a pass
holds at once.

Arithmetic only, as in `decoder_memory.py`; the plain torch kernels are counted there. Keys and
values are read where they lie, so that nothing here grows with the context.
"""

from __future__ import annotations

from models.config import ModelConfig
from models.decoder_memory import FLOAT32, PassSize, rope_count

VALUE_BYTES = 2
"""Of an activation: kernels compute in 16 bits."""
HEAD_SIZES = (64, 80, 96, 128, 256)
MOST_GROUPED = 16
"""Query heads of a KV head."""
SHARES_ROOM = 512 * 129 * 16 * FLOAT32
"""Of sums of shares, for products of few rows (`kernels/triton/linear.py`)."""
COUNTERS = 65_536 * 4
FEW_ROWS = 16
DECODE_SHARES = 64
VERIFY_SHARES = 16
"""Of the keys, for one new token of a sequence and for several (`kernels/tiles.py`)."""


def has_kernels(config: ModelConfig) -> bool:
    """Whether all of a pass runs on kernels that are counted here."""
    is_dense = not any(layer.experts for layer in config.layers)
    group = config.heads // config.kv_heads
    return is_dense and config.head_size in HEAD_SIZES and group <= MOST_GROUPED


def kept_bytes(
    config: ModelConfig, reading: PassSize, drafting: PassSize, sequences: int, is_packed: bool
) -> int:
    """Rooms that the kernels share. `reading`: the largest pass of a prompt, `drafting`: of drafts;
    `is_packed`: whether matrices are decoded for many rows; the output's never is.
    """
    shares = max(drafting.rows * VERIFY_SHARES, sequences * DECODE_SHARES)
    results = shares * config.heads * (config.head_size + 1) * FLOAT32
    rooms = (_room(config, size, is_packed) for size in (reading, drafting))
    return max(SHARES_ROOM, *rooms) + COUNTERS + results


def recorded_bytes(config: ModelConfig, wanted: int, is_packed: bool) -> int:
    """What recorded passes keep beside their workspace: logits before they are float32, where the
    vendor's product makes many.
    """
    if is_packed or wanted <= FEW_ROWS:
        return 0
    return wanted * config.vocab_size * VALUE_BYTES


def pass_bytes(config: ModelConfig, size: PassSize, is_packed: bool) -> int:
    """Peak of what a pass that is not recorded allocates: in attention, in a feed-forward network
    or at the logits.
    """
    heads, kv_heads, head_size = config.heads, config.kv_heads, config.head_size
    angles = 2 * size.rows * (config.rotary_size // 2) * FLOAT32 * rope_count(config)
    attending = config.hidden + (3 * heads + 2 * kv_heads) * head_size
    thinking = 2 * config.hidden + config.feed_forward
    values = size.wanted * config.vocab_size * FLOAT32
    capping = values if config.logit_cap is None else 3 * values
    making = values + recorded_bytes(config, size.wanted, is_packed)
    rows = (size.rows + size.wanted) * config.hidden * VALUE_BYTES
    choosing = rows + max(capping, making)
    inside = size.rows * max(attending, thinking) * VALUE_BYTES
    return angles + max(inside, choosing)


def _room(config: ModelConfig, size: PassSize, is_packed: bool) -> int:
    """Of the largest product with many rows: normed rows, those of a gate, the decoded matrix.
    Rows count by powers of two.
    """
    if size.rows <= FEW_ROWS:
        return 0
    rows = 1 << (size.rows - 1).bit_length()
    hidden, inner = config.hidden, config.feed_forward
    heads = config.heads * config.head_size
    qkv = heads + 2 * config.kv_heads * config.head_size
    products = ((qkv, hidden, 0), (hidden, heads, 0), (inner, hidden, rows), (hidden, inner, 0))
    numbers = max(rows * k + gated * n + (n * k if is_packed else 0) for n, k, gated in products)
    return numbers * VALUE_BYTES
