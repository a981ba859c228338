"""Random weights in a model's shapes, made where they are used."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kernels.weight_planes import PlaneWeight, empty_planes
from models.config import ModelConfig
from models.decoder import Decoder
from models.ops import KernelSettings
from models.parameters import Slot, parameter_shapes
from models.weights import Matrix, weights_from_slots
from tests.bench.gpu.rig import Rig

PACKED = ("Q8_0", "Q4_K")
_SPREAD = 4.6
"""Of evenly spread codes -8..7."""


def decoder(
    rig: Rig, config: ModelConfig, kind: str, kernels: KernelSettings | None = None
) -> Decoder:
    """`kind`: of every matrix, `bf16` or of PACKED; norms are ones."""
    torch.manual_seed(0)
    slots = {
        slot: _made(rig, slot, shape, kind) for slot, shape in parameter_shapes(config).items()
    }
    return Decoder(config, weights_from_slots(slots, config), kernels=kernels or rig.kernels)


def _made(rig: Rig, slot: Slot, shape: tuple[int, ...], kind: str) -> Matrix:
    if len(shape) == 1:
        return torch.ones(shape, dtype=rig.dtype, device=rig.device)
    if kind == "bf16":
        return dense(rig, shape)
    return packed(rig, kind, shape)


def dense(rig: Rig, shape: tuple[int, ...]) -> Tensor:
    """Rows of x keep their size when they go through."""
    made = torch.empty(shape, dtype=rig.dtype, device=rig.device)
    return made.normal_(std=shape[-1] ** -0.5)


def packed(rig: Rig, kind: str, shape: tuple[int, ...]) -> PlaneWeight:
    """Any codes; scales that give numbers the size of `dense`."""
    made = empty_planes(kind, shape, rig.device)
    planes = made.planes()
    planes["low"].random_(-(2**31), 2**31 - 1)
    size = shape[-1] ** -0.5
    if kind == "Q8_0":
        halves = torch.full((2,), size / 74, dtype=torch.float16, device=rig.device)
        planes["scales"].copy_(halves.view(torch.int32))
        return made
    # Six bits of scale and min for each group; the mins take the middle of the codes away.
    planes["scales"].fill_(32 | 32 << 8 | 60 << 16 | 60 << 24)
    step = size / (32 * _SPREAD)
    supers = torch.tensor([step, step * 32 * 7.5 / 60], dtype=torch.float16, device=rig.device)
    planes["supers"].copy_(supers.view(torch.int32))
    return made


def parameter_bytes(decoder: Decoder) -> int:
    """Of everything that lies on the device, each once."""
    found: dict[int, int] = {}
    weights = decoder.weights
    layers = [getattr(one, name) for one in weights.layers for name in one.__slots__]
    for one in (weights.embedding, weights.norm, weights.output, *layers):
        data = one.data if isinstance(one, PlaneWeight) else one
        if isinstance(data, Tensor):
            found[data.data_ptr()] = math.prod(data.shape) * data.dtype.itemsize
    return sum(found.values())
