"""q, k and v of each layer as one matrix, so that one launch projects all three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor

from kernels.dispatch import Product
from kernels.linear import Projection
from kernels.mixed_planes import MixedPlanes
from kernels.weight_planes import PlaneWeight, empty_planes
from models.ops import Ops
from models.weights import LayerWeights, Matrix, Weights


def join_projections(weights: Weights, ops: Ops) -> Weights:
    """With `qkv` in place of q, k and v where kernels read them as one; plain torch gains nothing
    by it.
    """
    joined = replace(weights, layers=tuple(_joined(layer, ops) for layer in weights.layers))
    ops.forget()
    return joined


def _joined(layer: LayerWeights, ops: Ops) -> LayerWeights:
    parts = [one for one in (layer.q, layer.k, layer.v) if one is not None]
    norm = layer.attention_norm
    row = torch.empty(1, norm.shape[0], dtype=norm.dtype, device="meta")
    if not all(ops.has_kernel("linear", Product(row, (one,))) for one in parts):
        return layer
    whole = one_matrix(parts)
    return layer if whole is None else replace(layer, q=None, k=None, v=None, qkv=whole)


def one_matrix(parts: list[Matrix]) -> Projection | None:
    """Rows below one another; None where dense and packed ones, or three types, come together."""
    plain = [one for one in parts if isinstance(one, Tensor)]
    if len(plain) == len(parts):
        return torch.cat(plain)
    packed = [one for one in parts if isinstance(one, PlaneWeight)]
    alike = [list(same) for _, same in groupby(packed, lambda one: one.type_name)]
    if len(packed) < len(parts) or len(alike) > 2:
        return None
    joined = [_of_one_type(same) for same in alike]
    return joined[0] if len(joined) == 1 else MixedPlanes(*joined)


def _of_one_type(packed: Sequence[PlaneWeight]) -> PlaneWeight:
    rows, columns = sum(one.shape[0] for one in packed), packed[0].shape[1]
    whole = empty_planes(packed[0].type_name, (rows, columns), packed[0].data.device)
    start = 0
    for one in packed:
        for name, plane in one.planes().items():
            if name != "values":
                whole.planes()[name][:, start : start + one.shape[0]] = plane
        start += one.shape[0]
    return whole
