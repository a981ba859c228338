"""How much memory our own decoder takes: weights, KV, and what one pass computes with.

Arithmetic only, from the config; needs no tensor library. Weights and KV are exact. The compute
part is the largest set of results that are held at the same time in a pass of the plain torch
kernels: in attention, in a feed-forward network or at the logits.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from kernels.kv_layout import BLOCK_TOKENS, KV_FORMATS, VALUE_BITS
from models.config import ModelConfig
from models.kv_groups import kv_layouts
from models.parameters import parameter_shapes

FLOAT32 = 4
SCORES_AT_ONCE = 2**22
"""That many scores the plain attention kernel holds at a time."""
DECODED_AT_ONCE = 2**22
"""That many values of a packed matrix are decoded at a time."""
WORKING_BYTES = {
    **dict.fromkeys(("Q4_0", "Q4_1", "Q8_0", "TQ2_0"), 8.1),
    **dict.fromkeys(("Q5_0", "Q5_1", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"), 9.2),
    **dict.fromkeys(("Q2_K", "Q3_K", "Q4_K"), 12.5),
    **dict.fromkeys(("I8", "F8_E4M3"), 13.0),
    **dict.fromkeys(("IQ2_XXS", "IQ2_XS", "IQ3_XXS"), 30.0),
}
"""For each of those while it is decoded, by type, as measured."""
MOST_WORKING_BYTES = 14.0
"""Of the other types."""

_PARTS = ("attention", "feed_forward", "logits")
_PART_OF = dict.fromkeys(("q", "k", "v", "o"), "attention")


@dataclass(frozen=True, slots=True)
class PassSize:
    """The largest pass that is to be expected."""

    rows: int
    """Tokens, of all sequences together."""
    wanted: int
    """Rows whose logits are asked for."""
    length: int
    """Tokens of the longest sequence after the pass."""


def parameter_count(config: ModelConfig) -> int:
    """A tied output counts once."""
    return sum(math.prod(shape) for shape in parameter_shapes(config).values())


def weights_bytes(config: ModelConfig, value_bytes: int) -> int:
    """Of plain tensors; packed ones are as large as in their file."""
    return parameter_count(config) * value_bytes


def kv_bytes_per_token(config: ModelConfig, kv_format: str, block: int = BLOCK_TOKENS) -> float:
    """While every layer still grows: a window's layers stop when they are full."""
    return sum(layout.bytes_per_token for layout in kv_layouts(config, kv_format, block))


def compute_bytes(
    config: ModelConfig,
    size: PassSize,
    value_bytes: int,
    kv_format: str,
    packed: Collection[str] = (),
) -> int:
    """Peak of what a pass allocates beside weights and KV; for experts an upper bound.

    `value_bytes`: of an activation. `packed`: block types of weights that stay in their file's
    blocks; the matrix that is being used is decoded to float32.
    """
    angles = size.rows * config.rotary_size * FLOAT32 * rope_count(config)
    # Of the residual stream's width live: the layer's input, and in the feed-forward network its
    # norm.
    residual = size.rows * config.hidden * value_bytes
    decoded = _decoding(config, value_bytes, packed) if packed else dict.fromkeys(_PARTS, 0)
    attending = max(_attention(config, size, value_bytes, kv_format), decoded["attention"])
    thinking = _feed_forward(config, size.rows, value_bytes, decoded["feed_forward"])
    choosing = _logits(config, size.wanted, value_bytes, decoded["logits"])
    parts = residual + attending, 2 * residual + thinking, 2 * residual + choosing
    return angles + max(parts)


def workspace_bytes(config: ModelConfig, tokens: int, wanted: int, value_bytes: int) -> int:
    """Of `models/workspace.py`."""
    heads, size = config.heads, config.head_size
    width = 3 * config.hidden + config.feed_forward + (3 * heads + 2 * config.kv_heads) * size
    angles = 3 * rope_count(config) * (config.rotary_size // 2) * FLOAT32
    row = config.hidden * value_bytes + config.vocab_size * FLOAT32
    return tokens * (width * value_bytes + angles) + wanted * row


def _attention(config: ModelConfig, size: PassSize, value_bytes: int, kv_format: str) -> int:
    """Q, K, V and the output, then what the kernel holds, in float32: first it reads K and V, then
    it has Q twice, scores, their softmax or their cap's copies, and a part of the output.
    """
    queries = size.rows * config.heads * config.head_size
    projected = 2 * size.rows * (config.heads + config.kv_heads) * config.head_size
    seen = max(_seen(size, layer.window) for layer in config.layers)
    one_row = config.heads * seen
    scores = min(size.rows * one_row, max(one_row, SCORES_AT_ONCE))
    hidden = scores // config.heads
    summing = 3 * queries + 2 * scores
    capping = 0 if config.attention_cap is None else 2 * queries + 3 * scores
    read, reading = _read(config, seen, kv_format)
    attending = 2 * read + max(summing, capping) * FLOAT32 + hidden
    return projected * value_bytes + max(read + reading, attending)


def _read(config: ModelConfig, seen: int, kv_format: str) -> tuple[int, int]:
    """Bytes of K or V when it is read, and of V while it is being read.

    Whole blocks are gathered, then their tokens become float32 numbers, then scaled ones.
    """
    width = config.kv_heads * config.head_size
    gathered, values = -(-seen // BLOCK_TOKENS) * BLOCK_TOKENS * width, seen * width
    stored = KV_FORMATS[kv_format].v
    if stored == "f32":
        return gathered * FLOAT32, 2 * gathered * FLOAT32
    if stored in ("f16", "bf16"):
        return values * FLOAT32, gathered * VALUE_BITS[stored] // 8 + values * FLOAT32
    unpacked = gathered if stored == "int4" else 0
    return values * FLOAT32, gathered * VALUE_BITS[stored] // 8 + unpacked + 2 * values * FLOAT32


def _seen(size: PassSize, window: int | None) -> int:
    """Tokens that the rows of the longest sequence see between them."""
    return size.length if window is None else min(size.length, window - 1 + size.rows)


def _feed_forward(config: ModelConfig, rows: int, value_bytes: int, decoded: int) -> int:
    """Gate, up and their product; with experts at worst, when all tokens go to the same ones."""
    dense = any(not layer.experts for layer in config.layers)
    inner = rows * config.feed_forward * value_bytes if dense else 0
    found = max(3 * inner, inner + decoded)
    if config.experts:
        # Beside them the tokens gathered, their sum, and what the expert before gave.
        beside = rows * (3 * config.hidden * value_bytes + 2 * config.experts * FLOAT32)
        inner = rows * config.expert_feed_forward * value_bytes
        found = max(found, beside + max(3 * inner, inner + decoded))
    return found


def _logits(config: ModelConfig, wanted: int, value_bytes: int, decoded: int) -> int:
    """As computed beside float32, then the copies of a cap. Of a packed matrix that is decoded in
    pieces only the result stands beside the logits.
    """
    values = wanted * config.vocab_size
    converting = FLOAT32 + value_bytes % FLOAT32
    capping = FLOAT32 if config.logit_cap is None else 3 * FLOAT32
    matrix = config.vocab_size * config.hidden
    beside = decoded
    if decoded and matrix > DECODED_AT_ONCE:
        beside = matrix * (FLOAT32 + value_bytes % FLOAT32)
    return max(values * max(converting, capping), decoded, values * value_bytes + beside)


def _decoding(config: ModelConfig, value_bytes: int, types: Collection[str]) -> dict[str, int]:
    """Bytes at the peak of decoding the largest matrix of each part."""
    each = max(WORKING_BYTES.get(name, MOST_WORKING_BYTES) for name in types)
    found = dict.fromkeys(_PARTS, 0)
    for slot, shape in parameter_shapes(config).items():
        # Experts are decoded one by one.
        values = math.prod(shape[-2:])
        working = int(min(values, DECODED_AT_ONCE) * each)
        peak = values * FLOAT32 + max(values * (value_bytes % FLOAT32), working)
        part = _PART_OF.get(slot.field, "logits" if slot.layer is None else "feed_forward")
        found[part] = max(found[part], peak)
    return found


def rope_count(config: ModelConfig) -> int:
    """Different ones of the layers."""
    return len({(layer.rope_base, layer.rope_scaling) for layer in config.layers if layer.has_rope})
