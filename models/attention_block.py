"""Attention of one layer: project, rotate, store K and V, attend over what the pool holds."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kernels.attention import paged_attention
from kernels.kv_pool import KVPool
from kernels.kv_store import store_kv
from kernels.linear import linear
from kernels.rms_norm import rms_norm
from kernels.rope import apply_rope
from models.config import ModelConfig
from models.model_input import ModelInput
from models.weights import LayerWeights


@dataclass(frozen=True, slots=True)
class KVPlace:
    """Where a layer's keys and values lie: its group, and its index among the group's layers."""

    group: int
    layer: int
    window: int | None


def attention(
    x: Tensor,
    layer: LayerWeights,
    config: ModelConfig,
    place: KVPlace,
    angles: tuple[Tensor, Tensor] | None,
    input: ModelInput,
    pool: KVPool,
) -> Tensor:
    """x [T, hidden], already normed; returns the same shape. Writes the tokens' KV into the pool.

    `angles`: cosines and sines [T, R / 2]; None: this layer does not rotate.
    """
    q = _heads(linear(x, layer.q, layer.q_bias), config.head_size)
    k = _heads(linear(x, layer.k, layer.k_bias), config.head_size)
    v = _heads(linear(x, layer.v, layer.v_bias), config.head_size)
    if layer.q_norm is not None and layer.k_norm is not None:
        q = rms_norm(q, layer.q_norm, config.norm_eps, config.norm_offset)
        k = rms_norm(k, layer.k_norm, config.norm_eps, config.norm_offset)
    if angles is not None:
        q, k = apply_rope(q, *angles), apply_rope(k, *angles)
    store_kv(pool, place.layer, k, v, input.slots[place.group])
    seen = paged_attention(
        q,
        pool,
        place.layer,
        input.first_row,
        input.lengths,
        input.tables[place.group],
        scale=config.attention_scale,
        window=place.window,
        cap=config.attention_cap,
    )
    return linear(seen.flatten(1), layer.o, layer.o_bias)


def _heads(x: Tensor, size: int) -> Tensor:
    """[T, heads * size] -> [T, heads, size]."""
    return x.view(x.shape[0], -1, size)
