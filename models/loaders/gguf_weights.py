"""GGUF tensors -> `Weights`: matrices stay packed as they are in the file, all else is expanded.

Tensors come from a memory map, so on the CPU what is neither reordered nor converted takes no
memory of its own. The header was checked by `models/loaders/gguf.py` before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from kernels.dequantize import BLOCK_TYPES
from kernels.quantized_weight import QuantizedWeight
from kernels.weight_planes import can_repack, repack
from models.config import ModelConfig
from models.errors import UnsupportedModel
from models.gguf_names import gguf_name, gguf_pieces
from models.hf_names import Piece
from models.loaders.filling import Progress, fill, ignore_progress
from models.loaders.gguf import TensorInfo
from models.loaders.gguf_rows import REORDERED_FIELDS, hugging_face_order
from models.loaders.split import ModelFiles, read_model
from models.loaders.steps import Source, Step, plan_steps
from models.sizes import show_name
from models.weights import Matrix, Weights

PLAIN_TYPES: dict[str, torch.dtype] = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F64": torch.float64,
}
"""Types without blocks; kept in the asked dtype."""


def load_gguf(
    path: Path,
    config: ModelConfig,
    device: torch.device | str,
    dtype: torch.dtype,
    progress: Progress = ignore_progress,
    repacks: bool = False,
) -> Weights:
    """The weights of a model in one file or several parts.

    `dtype`: of everything that is not packed, and so of the activations. `repacks`: whether blocks
    become planes for kernels, and are expanded where there are none of their type.

    Raises:
        ModelFileError: the file is damaged, incomplete, or does not fit `config`.
        UnsupportedModel: a tensor has an unknown name or a type that nothing here can decode.
        OutOfMemory: the device's memory does not suffice.
        LoadingStopped: `progress` returned False; the memory is free again.
    """
    files = read_model(path)
    tensors = {tensor.name: tensor for tensor in files.tensors}
    steps = plan_steps(
        [_source(tensor) for tensor in files.tensors],
        lambda name: gguf_pieces(name, config),
        gguf_name,
        config,
    )
    for step in steps:
        _check_type(tensors[step.source.name])
    reader = _Reader(files, config, torch.device(device), dtype, repacks)
    return fill(
        steps, lambda step: reader.pieces(step, tensors[step.source.name]), config, progress
    )


class _Reader:
    """Cuts, reorders and moves tensors of one model."""

    def __init__(
        self,
        files: ModelFiles,
        config: ModelConfig,
        device: torch.device,
        dtype: torch.dtype,
        repacks: bool,
    ) -> None:
        self._maps = {part.path: np.memmap(part.path, np.uint8, "c") for part in files.parts}
        self._head_size = config.head_size
        self._is_reordered = files.metadata.get("general.architecture") == "llama"
        self._device = device
        self._dtype = dtype
        self._repacks = repacks

    def pieces(self, step: Step, info: TensorInfo) -> Iterator[tuple[Piece, Matrix]]:
        raw = self._maps[info.file][info.offset : info.offset + info.byte_count]
        shape = step.source.shape
        rows = torch.from_numpy(raw).view(*shape[:-1], -1)
        if info.type.name in PLAIN_TYPES:
            rows = rows.view(PLAIN_TYPES[info.type.name])
        for piece in step.pieces:
            yield piece, self._matrix(self._arranged(rows, len(shape), piece), info, shape)

    def _arranged(self, rows: Tensor, dimensions: int, piece: Piece) -> Tensor:
        """The piece's rows in Hugging Face's order; a vector's values are its rows."""
        axis = max(dimensions - 2, 0)
        if piece.rows is not None:
            start, end = piece.rows
            rows = rows.narrow(axis, start, end - start)
        if self._is_reordered and piece.slot.field in REORDERED_FIELDS:
            rows = rows[hugging_face_order(rows.shape[axis], self._head_size)]
        return rows

    def _matrix(self, rows: Tensor, info: TensorInfo, shape: tuple[int, ...]) -> Matrix:
        """Vectors are expanded, the blocks of matrices stay packed."""
        if info.type.name in PLAIN_TYPES:
            return rows.to(self._device, self._dtype)
        whole = (*rows.shape[:-1], shape[-1])
        packed = QuantizedWeight(rows.to(self._device), info.type.name, whole)
        if len(shape) > 1 and not self._repacks:
            return packed
        is_read = len(shape) > 1 and can_repack(info.type.name)
        return repack(packed) if is_read else packed.dequantize().to(self._dtype)


def _source(tensor: TensorInfo) -> Source:
    return Source(tensor.name, tensor.shape[::-1], tensor.byte_count, tensor.file)


def _check_type(info: TensorInfo) -> None:
    """Before any memory is taken."""
    name = info.type.name
    if name in PLAIN_TYPES or name in BLOCK_TYPES:
        return
    raise UnsupportedModel(
        f"{show_name(info.file)} cannot run on this engine.",
        f"The tensor {info.name} has the storage type {name}, which is not known to it.",
        "Use another quantization of the model, or run this one through llama.cpp.",
    )
