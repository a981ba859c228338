"""q, k and v of each layer as one matrix, so that one launch projects all three."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from kernels.dispatch import Product
from models.ops import Ops
from models.weights import LayerWeights, Matrix, Weights


def join_projections(weights: Weights, ops: Ops) -> tuple[Weights, tuple[Matrix | None, ...]]:
    """Weights whose q, k and v are parts of the joined matrices, which come beside them; None for
    a layer that stays as it is: plain torch gains nothing by it.
    """
    layers, joined = [], []
    for layer in weights.layers:
        whole = _joined(layer, ops)
        joined.append(whole)
        layers.append(layer if whole is None else _as_parts(layer, whole))
    return replace(weights, layers=tuple(layers)), tuple(joined)


def _joined(layer: LayerWeights, ops: Ops) -> Tensor | None:
    q, k, v = layer.q, layer.k, layer.v
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        return None
    row = torch.empty(1, q.shape[1], dtype=layer.attention_norm.dtype, device=q.device)
    if not all(ops.has_kernel("linear", Product(row, (one,))) for one in (q, k, v)):
        return None
    return torch.cat([q, k, v])


def _as_parts(layer: LayerWeights, whole: Tensor) -> LayerWeights:
    counts = [one.shape[0] for one in (layer.q, layer.k, layer.v)]
    q, k, v = torch.split(whole, counts)
    return replace(layer, q=q, k=k, v=v)
