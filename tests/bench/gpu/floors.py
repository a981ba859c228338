"""Bytes and operations that each kernel cannot do without, by formula.

    python -m tests.bench.gpu.floors

prints the tables of docs/kernels.md. Figures of a measurement are shares of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from models.config import ModelConfig
from models.kv_groups import kv_layouts
from models.own_decoder import PLANE_BYTES
from models.parameters import layer_shapes
from tests.bench.gpu.shapes import SHAPES

ACTIVATION = 2
"""bf16."""
FLOAT32 = 4
WEIGHT_BYTES = {"bf16": 2.0, **{name: size / 256 for name, size in PLANE_BYTES.items()}}
"""Of a number, scales included."""
SHOWN_WEIGHTS = ("bf16", "Q8_0", "Q4_K")
SHOWN_KV = ("bf16", "q8", "fp8", "k8v4", "q4")
DEPTHS = (0, 8192, 32_768, 131_072)
PROMPTS = (512, 4096, 32_768)


@dataclass(frozen=True, slots=True)
class Work:
    """Of one launch."""

    bytes: float
    operations: float

    def __add__(self, other: Work) -> Work:
        return Work(self.bytes + other.bytes, self.operations + other.operations)


def linear(rows: int, n: int, k: int, weights: str, extra: int = 0) -> Work:
    """x [rows, K] through [N, K]; `extra`: numbers read besides, such as a residual."""
    moved = n * k * WEIGHT_BYTES[weights] + ACTIVATION * (rows * (n + k) + extra)
    return Work(moved, 2.0 * rows * n * k)


def kv_bytes(config: ModelConfig, kv: str) -> float:
    """Of a token in one layer, K, V and scales."""
    return sum(one.bytes_per_token for one in kv_layouts(config, kv)) / len(config.layers)


def decode_layer(config: ModelConfig, weights: str, kv: str, depth: int) -> dict[str, Work]:
    """Launches of one layer for one token, in order, by what they do."""
    heads, size, hidden = config.heads, config.head_size, config.hidden
    queries, qkv = heads * size, (heads + 2 * config.kv_heads) * size
    shares = min(64, max(1, -(-depth // 256)))
    partial = heads * shares * (size + 1) * FLOAT32
    per_token = kv_bytes(config, kv)
    inner = config.feed_forward
    return {
        "qkv": linear(1, qkv, hidden, weights, hidden),
        "store": Work(ACTIVATION * (qkv + queries) + per_token, 0),
        "attention": Work(
            depth * per_token + ACTIVATION * queries + partial, 4.0 * queries * depth
        ),
        "merge": Work(partial + ACTIVATION * queries, 0),
        "o": linear(1, hidden, queries, weights, hidden),
        "gate_up": linear(1, 2 * inner, hidden, weights, hidden - inner),
        "down": linear(1, hidden, inner, weights, hidden),
    }


def head(config: ModelConfig, weights: str) -> Work:
    return linear(1, config.vocab_size, config.hidden, weights)


def step(config: ModelConfig, weights: str, kv: str, depth: int) -> Work:
    """One decode step of one sequence."""
    total = head(config, weights)
    for work in decode_layer(config, weights, kv, depth).values():
        total += Work(work.bytes * len(config.layers), work.operations * len(config.layers))
    return total


def attention_bytes(config: ModelConfig, kv: str, depth: int) -> float:
    """K and V that one token reads in all layers."""
    return depth * kv_bytes(config, kv) * len(config.layers)


def prefill_operations(config: ModelConfig, tokens: int, prefix: int = 0) -> float:
    """Of the matrix units, for `tokens` behind a prefix, one row of logits."""
    products = sum(
        math.prod(shape)
        for index in range(len(config.layers))
        for shape in layer_shapes(config, index).values()
        if len(shape) == 2
    )
    return (
        2.0 * products * tokens
        + attention_operations(config, tokens, prefix)
        + 2.0 * config.vocab_size * config.hidden
    )


def attention_operations(config: ModelConfig, tokens: int, prefix: int = 0) -> float:
    pairs = tokens * prefix + tokens * (tokens + 1) / 2
    return 4.0 * config.heads * config.head_size * pairs * len(config.layers)


# ---- tables


def tables() -> str:
    parts = (
        ("Bytes of a decode step's launches, bf16, MB a layer; the head once", _launches()),
        ("Bytes that a decode step reads and writes, GB", _steps()),
        ("KV bytes of a token, all layers, KiB", _kv()),
        ("Operations of a prompt, TFLOP", _prompts()),
    )
    return "\n".join(f"**{title}**\n\n{table}\n" for title, table in parts)


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(header)]
    lines += [["---"] * len(lines[0]), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _launches() -> str:
    names = [*decode_layer(SHAPES["8B"], "bf16", "bf16", 0)]
    rows = []
    for name, config in SHAPES.items():
        works: Mapping[str, Work] = decode_layer(config, "bf16", "bf16", 8192)
        figures = [f"{works[one].bytes / 1e6:.3g}" for one in names]
        rows.append([name, *figures, f"{head(config, 'bf16').bytes / 1e6:,.0f}"])
    columns = [f"{one} at 8k" if one in ("attention", "merge") else one for one in names]
    return markdown(["shape", *columns, "head"], rows)


def _steps() -> str:
    rows = []
    for name, config in SHAPES.items():
        for weights in SHOWN_WEIGHTS:
            for kv in ("bf16", "q8", "q4"):
                figures = [f"{step(config, weights, kv, one).bytes / 1e9:.2f}" for one in DEPTHS]
                rows.append([name, weights, kv, *figures])
    return markdown(["shape", "weights", "KV", "0", "8k", "32k", "128k"], rows)


def _kv() -> str:
    rows = [
        [name, *(f"{kv_bytes(config, kv) * len(config.layers) / 1024:.0f}" for kv in SHOWN_KV)]
        for name, config in SHAPES.items()
    ]
    return markdown(["shape", *SHOWN_KV], rows)


def _prompts() -> str:
    rows = []
    for name, config in SHAPES.items():
        whole = [prefill_operations(config, one) for one in PROMPTS]
        shares = [
            attention_operations(config, one) / all_of
            for one, all_of in zip(PROMPTS, whole, strict=True)
        ]
        pairs = zip(whole, shares, strict=True)
        rows.append([name, *(f"{one / 1e12:.3g} ({share:.0%})" for one, share in pairs)])
    return markdown(["shape (share of attention)", "512", "4k", "32k"], rows)


if __name__ == "__main__":
    print(tables())
