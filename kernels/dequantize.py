"""GGUF's block types to float32, in plain torch on any device.

Equal bit for bit to `gguf.quants.dequantize`. Which function decodes which type is a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels import ggml_blocks, ggml_grid_blocks

CHUNK_VALUES = 2**22
"""Values decoded at a time: what is needed in between stays at some 100 MB."""


@dataclass(frozen=True, slots=True)
class BlockType:
    """`values` in a block of `size` bytes; `decode` maps [N, size] to float32 [N, values]."""

    values: int
    size: int
    decode: Callable[[Tensor], Tensor]


BLOCK_TYPES = {
    "F32": BlockType(1, 4, ggml_blocks.f32),
    "F16": BlockType(1, 2, ggml_blocks.f16),
    "BF16": BlockType(1, 2, ggml_blocks.bf16),
    "Q4_0": BlockType(32, 18, ggml_blocks.q4_0),
    "Q4_1": BlockType(32, 20, ggml_blocks.q4_1),
    "Q5_0": BlockType(32, 22, ggml_blocks.q5_0),
    "Q5_1": BlockType(32, 24, ggml_blocks.q5_1),
    "Q8_0": BlockType(32, 34, ggml_blocks.q8_0),
    "Q2_K": BlockType(256, 84, ggml_blocks.q2_k),
    "Q3_K": BlockType(256, 110, ggml_blocks.q3_k),
    "Q4_K": BlockType(256, 144, ggml_blocks.q4_k),
    "Q5_K": BlockType(256, 176, ggml_blocks.q5_k),
    "Q6_K": BlockType(256, 210, ggml_blocks.q6_k),
    "TQ1_0": BlockType(256, 54, ggml_blocks.tq1_0),
    "TQ2_0": BlockType(256, 66, ggml_blocks.tq2_0),
    "IQ4_NL": BlockType(32, 18, ggml_blocks.iq4_nl),
    "IQ4_XS": BlockType(256, 136, ggml_blocks.iq4_xs),
    "MXFP4": BlockType(32, 17, ggml_blocks.mxfp4),
    "NVFP4": BlockType(64, 36, ggml_blocks.nvfp4),
    "IQ1_S": BlockType(256, 50, ggml_grid_blocks.iq1_s),
    "IQ1_M": BlockType(256, 56, ggml_grid_blocks.iq1_m),
    "IQ2_XXS": BlockType(256, 66, ggml_grid_blocks.iq2_xxs),
    "IQ2_XS": BlockType(256, 74, ggml_grid_blocks.iq2_xs),
    "IQ2_S": BlockType(256, 82, ggml_grid_blocks.iq2_s),
    "IQ3_XXS": BlockType(256, 98, ggml_grid_blocks.iq3_xxs),
    "IQ3_S": BlockType(256, 110, ggml_grid_blocks.iq3_s),
}


def dequantize(data: Tensor, type_name: str) -> Tensor:
    """data uint8 [..., bytes of a row] -> float32 [..., values of a row].

    Raises:
        ValueError: the type is unknown, or a row is not a whole number of blocks.
    """
    kind = BLOCK_TYPES.get(type_name)
    if kind is None:
        raise ValueError(f"no decoding is known for the tensor type {type_name}")
    if data.shape[-1] % kind.size:
        raise ValueError(f"{data.shape[-1]} bytes are no whole number of {type_name} blocks")
    blocks = data.reshape(-1, kind.size)
    out = torch.empty(blocks.shape[0], kind.values, device=data.device)
    step = CHUNK_VALUES // kind.values
    for start in range(0, blocks.shape[0], step):
        out[start : start + step] = kind.decode(blocks[start : start + step])
    return out.view(*data.shape[:-1], data.shape[-1] // kind.size * kind.values)
