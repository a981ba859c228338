"""Projections on tensors without numbers, in the shapes of an 8B model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kernels.linear import Weight
from kernels.mixed_planes import MixedPlanes
from kernels.plane_format import PLANE_FORMATS
from kernels.triton import matrix_linear
from kernels.triton.gate_up import gate_up
from kernels.triton.linear import fused_linear, room_bytes
from kernels.triton.work import Work
from kernels.weight_planes import PlaneWeight, empty_planes
from tests.kernels.triton.meta import integers, tensor

HIDDEN, INNER = 4096, 12288
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def weight(kind: str, n: int, k: int, *stack: int) -> Weight:
    if kind in PLANE_FORMATS:
        return empty_planes(kind, (*stack, n, k), torch.device("meta"))
    return tensor(*stack, n, k, dtype=DTYPES[kind])


def rows(kind: str, tokens: int, k: int) -> Tensor:
    return tensor(tokens, k, dtype=DTYPES.get(kind, torch.bfloat16))


def work(size: int) -> Work:
    return Work(tensor(size, dtype=torch.uint8), tensor(65536, dtype=torch.int32))


def down(kind: str, tokens: int = 1, k: int = INNER, room: Work | None = None) -> Tensor:
    """Plain rows, and the residual added."""
    x, residual = rows(kind, tokens, k), rows(kind, tokens, HIDDEN)
    room = room or work(room_bytes())
    return fused_linear(x, weight(kind, HIDDEN, k), residual=residual, out=residual, work=room)


def normed_gate_up(kind: str, tokens: int = 1) -> Tensor:
    x, norm = rows(kind, tokens, HIDDEN), tensor(HIDDEN)
    gate, up = weight(kind, INNER, HIDDEN), weight(kind, INNER, HIDDEN)
    out = rows(kind, tokens, INNER)
    return gate_up(x, gate, up, "silu", norm=norm, out=out, work=work(room_bytes()))


def normed_qkv(*kinds: str) -> Tensor:
    """A norm, and q, k and v as one matrix; of two kinds the second is that of v."""
    x, norm = rows(kinds[0], 1, HIDDEN), tensor(HIDDEN)
    heights = (6144,) if len(kinds) == 1 else (5120, 1024)
    parts = [weight(kind, n, HIDDEN) for kind, n in zip(kinds, heights, strict=True)]
    packed = [one for one in parts if isinstance(one, PlaneWeight)]
    whole = MixedPlanes(*packed) if len(kinds) > 1 else parts[0]
    out = rows(kinds[0], 1, sum(heights))
    return fused_linear(x, whole, norm=norm, out=out, work=work(room_bytes()))


def expert_down(kind: str) -> Tensor:
    """One of 128 experts for each of 8 rows."""
    x, out = rows(kind, 8, 768), rows(kind, 8, 2048)
    stack = weight(kind, 2048, 768, 128)
    return fused_linear(x, stack, experts=integers(8), out=out, work=work(room_bytes()))


def many_rows(kind: str, tokens: int = 512) -> Callable[[], Tensor]:
    x, norm, out = rows(kind, tokens, HIDDEN), tensor(HIDDEN), rows(kind, tokens, INNER)
    gate, up = weight(kind, INNER, HIDDEN), weight(kind, INNER, HIDDEN)
    room = work(matrix_linear.room_bytes(tokens, INNER, HIDDEN, True, kind in PLANE_FORMATS))
    return lambda: matrix_linear.gate_up(x, gate, up, "silu", norm=norm, out=out, work=room)
