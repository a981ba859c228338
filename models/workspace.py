"""Where the results of a pass lie when nothing may be allocated for them.

A pass that is recorded once and replayed writes to the same places every time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Workspace:
    """Room for `T` tokens and `R` rows of logits; what is None is allocated when it is needed."""

    first: Tensor | None = None
    """[T, hidden]: what flows into a layer."""
    second: Tensor | None = None
    """[T, hidden]: what flows from its attention to its feed-forward network."""
    normed: Tensor | None = None
    """[T, hidden]"""
    qkv: Tensor | None = None
    """[T, (H + 2 Hkv) D]"""
    q: Tensor | None = None
    """[T, H, D]"""
    seen: Tensor | None = None
    """[T, H, D]"""
    inner: Tensor | None = None
    """[T, feed_forward]"""
    angles: tuple[Tensor, ...] = ()
    """Of each rope float32 [3, T, R / 2]."""
    wanted: Tensor | None = None
    """[R, hidden]"""
    logits: Tensor | None = None
    """float32 [R, V]"""

    def part(self, tokens: int, wanted: int) -> Workspace:
        """The same memory for fewer tokens and rows of logits."""
        return Workspace(
            first=_head(self.first, tokens),
            second=_head(self.second, tokens),
            normed=_head(self.normed, tokens),
            qkv=_head(self.qkv, tokens),
            q=_head(self.q, tokens),
            seen=_head(self.seen, tokens),
            inner=_head(self.inner, tokens),
            angles=tuple(_dense_part(one, tokens) for one in self.angles),
            wanted=_head(self.wanted, wanted),
            logits=_head(self.logits, wanted),
        )


ALLOCATED = Workspace()


def workspace_for(
    config: ModelConfig,
    ropes: int,
    tokens: int,
    wanted: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Workspace:
    """`ropes`: how many different ones the layers have."""

    def room(*shape: int, of: torch.dtype = dtype) -> Tensor:
        return torch.zeros(shape, dtype=of, device=device)

    heads, kv_heads, size = config.heads, config.kv_heads, config.head_size
    hidden = config.hidden
    return Workspace(
        first=room(tokens, hidden),
        second=room(tokens, hidden),
        normed=room(tokens, hidden),
        qkv=room(tokens, (heads + 2 * kv_heads) * size),
        q=room(tokens, heads, size),
        seen=room(tokens, heads, size),
        inner=room(tokens, config.feed_forward),
        angles=tuple(
            room(3, tokens, config.rotary_size // 2, of=torch.float32) for _ in range(ropes)
        ),
        wanted=room(wanted, hidden),
        logits=room(wanted, config.vocab_size, of=torch.float32),
    )


def _head(room: Tensor | None, count: int) -> Tensor | None:
    return None if room is None else room[:count]


def _dense_part(room: Tensor, tokens: int) -> Tensor:
    """Of [3, T, R / 2], with dense parts."""
    _, _, pairs = room.shape
    return room.flatten()[: 3 * tokens * pairs].view(3, tokens, pairs)
