"""A safetensors folder -> `Weights`, each tensor straight from its shard to the device.

All headers are checked by `models/loaders/safetensors_index.py` before; what is read for which
parameter is settled before the first tensor is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from kernels.eight_bit_planes import (
    COLUMNS_OF_SCALE,
    fp8_planes,
    int8_planes,
    scales_of_rows,
)
from kernels.weight_planes import PlaneWeight
from models.config import ModelConfig
from models.errors import ModelFileError, UnsupportedModel
from models.hf_folder import CONFIG, read_json
from models.hf_names import Piece
from models.hf_quantization import Block, block_of
from models.loaders.eight_bits import FLOATS, INTEGERS, eight_bits
from models.loaders.filling import Progress, fill, ignore_progress
from models.loaders.fp8_scales import FP8_DTYPE, check_scale, scale_names
from models.loaders.safetensors_header import StoredTensor
from models.loaders.safetensors_index import SafetensorsFolder, read_safetensors
from models.loaders.safetensors_plan import plan_safetensors
from models.loaders.scaled_matrix import apply_scale
from models.loaders.steps import Step
from models.parameters import Slot
from models.sizes import show_name
from models.weights import Matrix, Weights, cut

ROW_BLOCK = (1, COLUMNS_OF_SCALE)
READABLE_DTYPES = ("F64", "F32", "F16", "BF16", FP8_DTYPE)


def load_safetensors(
    folder: Path,
    config: ModelConfig,
    device: torch.device | str,
    dtype: torch.dtype,
    progress: Progress = ignore_progress,
    repacks: bool = False,
    rounds: bool = False,
) -> Weights:
    """The weights of a folder in `dtype`, but for matrices that `eight_bits` makes planes of.

    `repacks`: 8-bit floats stay such, for kernels. `rounds`: other matrices become 8-bit integers.

    Raises:
        ModelNotFound: a shard is missing.
        ModelFileError: a file is damaged, or its tensors do not fit `config`.
        UnsupportedModel: a tensor has an unknown name or dtype.
        OutOfMemory: the device's memory does not suffice.
        LoadingStopped: `progress` returned False; the memory is free again.
    """
    files = read_safetensors(folder)
    block = block_of(read_json(folder / CONFIG))
    scales = scale_names(files.tensors)
    steps = plan_safetensors(files, config)
    for step in steps:
        _check_dtype(files.tensors[step.source.name])
    for name, scale in scales.items():
        check_scale(files.tensors[name], files.tensors[scale], block)
    with ExitStack() as stack:
        opened = _open(files, str(device), stack)
        types = eight_bits(files, steps, block, repacks, rounds).types
        reader = _Reader(files.tensors, opened, scales, block, dtype, types)
        return fill(steps, reader.pieces, config, progress)


class _Reader:
    """Reads, scales and casts tensors of one folder."""

    def __init__(
        self,
        tensors: Mapping[str, StoredTensor],
        opened: Mapping[Path, Any],
        scales: Mapping[str, str],
        block: Block | None,
        dtype: torch.dtype,
        types: Mapping[Slot, str],
    ) -> None:
        self._tensors = tensors
        self._opened = opened
        self._scales = scales
        self._block = block
        self._dtype = dtype
        self._types = types

    def pieces(self, step: Step) -> Iterator[tuple[Piece, Matrix]]:
        name = step.source.name
        whole = self._read(name)
        scale = self._read(self._scales[name]) if name in self._scales else None
        if any(self._types.get(piece.slot) == FLOATS for piece in step.pieces):
            assert scale is not None
            yield from self._floats(step, whole, scale)
            return
        if scale is not None:
            whole = apply_scale(whole, scale, self._block)
        for piece in step.pieces:
            part = cut(whole, piece)
            is_rounded = self._types.get(piece.slot) == INTEGERS
            yield piece, int8_planes(part) if is_rounded else part.to(self._dtype)

    def _floats(
        self, step: Step, whole: Tensor, scale: Tensor
    ) -> Iterator[tuple[Piece, PlaneWeight]]:
        """Pieces of a fused matrix may begin within a block: each row takes its own scales."""
        scales = scales_of_rows(tuple(whole.shape), scale, self._block)
        for piece in step.pieces:
            try:
                yield piece, fp8_planes(cut(whole, piece), cut(scales, piece), ROW_BLOCK)
            except ValueError as error:
                raise _unreadable(step.source.file, error, step.source.name) from error

    def _read(self, name: str) -> Tensor:
        file = self._tensors[name].file
        try:
            tensor: Tensor = self._opened[file].get_tensor(name)
        except SafetensorError as error:
            raise _unreadable(file, error) from error
        return tensor


def _open(files: SafetensorsFolder, device: str, stack: ExitStack) -> dict[Path, Any]:
    opened = {}
    for shard in files.shards:
        try:
            handle = safe_open(shard.path, framework="pt", device=device)
        except (SafetensorError, OSError) as error:
            raise _unreadable(shard.path, error) from error
        opened[shard.path] = stack.enter_context(handle)
    return opened


def _check_dtype(tensor: StoredTensor) -> None:
    if tensor.dtype not in READABLE_DTYPES:
        raise UnsupportedModel(
            f"{show_name(tensor.file)} cannot be used.",
            f"The tensor {tensor.name} is stored as {tensor.dtype}, which is not read here.",
            "Use another version of the model, or a GGUF file.",
        )


def _unreadable(file: Path, error: Exception, tensor: str = "") -> ModelFileError:
    where = f"At the tensor {tensor}: " if tensor else ""
    return ModelFileError(
        f"{show_name(file)} cannot be read.", f"{where}{error}.", "Download the file again."
    )
