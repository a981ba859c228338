"""Attention of one layer: project, rotate, store K and V, attend over what the pool holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor, split

from kernels.kv_pool import KVPool
from kernels.linear import Projection
from kernels.qkv_store import Biases, HeadNorms
from models.config import ModelConfig
from models.model_input import ModelInput
from models.ops import Norm, Ops
from models.weights import LayerWeights
from models.workspace import Workspace


@dataclass(frozen=True, slots=True)
class KVPlace:
    """Where a layer's keys and values lie: its group, and its index among the group's layers."""

    group: int
    layer: int
    window: int | None


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """What a layer's attention is made of. `projections`: of q, k and v, or one that is all."""

    projections: tuple[Projection, ...]
    norm: Norm
    place: KVPlace
    biases: Biases | None
    head_norms: HeadNorms | None


def attention_layer(layer: LayerWeights, place: KVPlace, config: ModelConfig) -> AttentionLayer:
    biases = head_norms = None
    if layer.q_bias is not None and layer.k_bias is not None and layer.v_bias is not None:
        biases = Biases(layer.q_bias, layer.k_bias, layer.v_bias)
    if layer.q_norm is not None and layer.k_norm is not None:
        kind = config.norm_eps, config.norm_offset
        head_norms = HeadNorms(layer.q_norm, layer.k_norm, *kind)
    whole = (layer.q, layer.k, layer.v) if layer.qkv is None else (layer.qkv,)
    projections = tuple(one for one in whole if one is not None)
    norm = Norm(layer.attention_norm, config.norm_eps, config.norm_offset)
    return AttentionLayer(projections, norm, place, biases, head_norms)


def attention(
    x: Tensor,
    layer: AttentionLayer,
    config: ModelConfig,
    ops: Ops,
    angles: tuple[Tensor, Tensor] | None,
    input: ModelInput,
    pool: KVPool,
    room: Workspace,
) -> Tensor:
    """x [T, hidden] -> [T, H, D], before the output projection. Writes the tokens' KV into the
    pool.

    `angles`: cosines and sines [T, R / 2]; None: this layer does not rotate.
    """
    place = layer.place
    q, k, v = _projected(x, layer, config, ops, room)
    q = ops.store(config.heads, pool)(
        q,
        k,
        v,
        pool,
        place.layer,
        input.slots[place.group],
        layer.biases,
        layer.head_norms,
        angles,
        out=room.q,
    )
    return _attended(q, config, ops, place, input, pool, room.seen)


def _projected(
    x: Tensor, layer: AttentionLayer, config: ModelConfig, ops: Ops, room: Workspace
) -> list[Tensor]:
    """q [T, H, D], k and v [T, Hkv, D], without their biases."""
    counts = [config.heads, config.kv_heads, config.kv_heads]
    widths = [count * config.head_size for count in counts]
    if len(layer.projections) == 1:
        out = room.qkv
        whole = ops.linear(x, layer.projections[0], norm=layer.norm, out=out)
        parts: Sequence[Tensor] = split(whole, widths, 1)
    else:
        outs = [None] * 3 if room.qkv is None else split(room.qkv, widths, 1)
        parts = ops.linears(x, layer.projections, layer.norm, outs)
    return [
        torch.unflatten(part, 1, (count, -1)) for part, count in zip(parts, counts, strict=True)
    ]


def _attended(
    q: Tensor,
    config: ModelConfig,
    ops: Ops,
    place: KVPlace,
    input: ModelInput,
    pool: KVPool,
    out: Tensor | None,
) -> Tensor:
    """Sequences with one new token that lead the pass are attended apart from the prompts behind
    them: each kind has its kernel.
    """
    out = torch.empty_like(q) if out is None else out
    how = {"scale": config.attention_scale, "window": place.window, "cap": config.attention_cap}
    first, lengths, table = input.first_row, input.lengths, input.tables[place.group]
    few = len(list(takewhile(lambda count: count <= 1, input.new)))
    most = max(input.new, default=1)
    if not few or few == len(input.new) or not ops.splits_passes:
        ops.attend(q, pool, most, out, place.layer, first, lengths, table, **how)
        return out
    rows = sum(input.new[:few])
    leading = first[: few + 1], lengths[:few], table[:few]
    ops.attend(q[:rows], pool, 1, out[:rows], place.layer, *leading, **how)
    ops.attend(q, pool, most, out, place.layer, first[few:], lengths[few:], table[few:], **how)
    return out
