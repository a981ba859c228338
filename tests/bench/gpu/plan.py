"""What is measured, the most telling first: what the time does not suffice for is left out."""

from __future__ import annotations

from dataclasses import dataclass

K = 1024


@dataclass(frozen=True, slots=True)
class Point:
    """One model with one kind of weights and one KV type."""

    shape: str
    weights: str
    kv: str
    lengths: tuple[int, ...]
    """Tokens before the step, or of the prompt."""


DECODE = (
    Point("8B", "bf16", "bf16", (0, 8 * K, 32 * K, 128 * K)),
    Point("8B", "bf16", "q8", (0, 8 * K, 32 * K, 128 * K)),
    Point("8B", "Q8_0", "q8", (0, 32 * K)),
    Point("8B", "Q4_K", "q8", (0, 8 * K, 32 * K, 128 * K)),
    Point("8B", "Q4_K", "fp8", (32 * K,)),
    Point("8B", "Q4_K", "k8v4", (32 * K, 128 * K)),
    Point("8B", "Q4_K", "q4", (32 * K, 128 * K)),
    Point("0.6B", "bf16", "bf16", (0, 32 * K)),
    Point("0.6B", "Q8_0", "q8", (0,)),
    Point("0.6B", "Q4_K", "q8", (0, 32 * K)),
    Point("4B", "bf16", "bf16", (0,)),
    Point("4B", "Q4_K", "q8", (0, 32 * K)),
    Point("14B", "bf16", "q8", (0, 32 * K)),
    Point("14B", "Q4_K", "q8", (0, 32 * K, 128 * K)),
)
PREFILL = (
    Point("8B", "bf16", "bf16", (512, 4 * K, 32 * K)),
    Point("8B", "bf16", "q8", (4 * K, 32 * K)),
    Point("8B", "Q4_K", "q8", (512, 4 * K)),
    Point("0.6B", "bf16", "bf16", (512, 4 * K, 32 * K)),
    Point("4B", "Q4_K", "q8", (4 * K,)),
    Point("14B", "Q4_K", "q8", (4 * K,)),
)
HIT = (Point("8B", "bf16", "bf16", (8 * K, 32 * K)), Point("8B", "Q4_K", "q8", (32 * K,)))
"""Prefixes that are held already, before NEW_TOKENS."""
NEW_TOKENS = 32
DRY_LENGTH = 80
ATTENTION_LENGTH = 32 * K
ATTENTION_KV = ("bf16", "q8", "fp8", "k8v4", "q4")
GENERATED = ("8B", "0.6B")
"""Beside transformers; the first of them is the target's."""
COMPILED = "0.6B"
"""With a static cache and torch.compile, whose time grows with the layers."""
QUICK = ("8B",)
"""Shapes of the short form."""


def quick(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """The first two kinds of weights of the target's shape."""
    return tuple(one for one in points if one.shape in QUICK)[:4]


def dry(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """The first of each kind of weights, in lengths that a CPU can do."""
    firsts = {one.weights: one for one in reversed(points)}
    return tuple(
        Point(one.shape, one.weights, one.kv, tuple(min(n, DRY_LENGTH) for n in one.lengths[:2]))
        for one in firsts.values()
    )
