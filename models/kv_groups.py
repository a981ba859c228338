"""Which layers share a pool: those that keep the same tokens.

Layers that see everything form one group, layers of one window another, so that a window's blocks
can be given back while the others are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.kv_layout import BLOCK_TOKENS, KV_FORMATS, KVLayout
from models.config import ModelConfig


@dataclass(frozen=True, slots=True)
class KVGroup:
    """`layers` are indices into the model's layers; their order is that of the pool's layers."""

    window: int | None
    layers: tuple[int, ...]


def kv_groups(config: ModelConfig) -> tuple[KVGroup, ...]:
    """The group that sees everything first, then the windows from the widest."""
    windows = {layer.window for layer in config.layers}
    order = sorted(windows, key=lambda window: (window is not None, -(window or 0)))
    return tuple(
        KVGroup(window, tuple(i for i, one in enumerate(config.layers) if one.window == window))
        for window in order
    )


def kv_layouts(
    config: ModelConfig, format_name: str, block: int = BLOCK_TOKENS
) -> tuple[KVLayout, ...]:
    """One layout for each group."""
    kind = KV_FORMATS[format_name]
    return tuple(
        KVLayout(kind, len(group.layers), config.kv_heads, config.head_size, block)
        for group in kv_groups(config)
    )
