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

from models.config import ModelConfig
from models.errors import ModelFileError, UnsupportedModel
from models.hf_folder import CONFIG, read_json
from models.hf_names import Piece
from models.hf_quantization import Block, block_of
from models.loaders.filling import Progress, fill, ignore_progress
from models.loaders.fp8_scales import FP8_DTYPE, check_scale, scale_names
from models.loaders.safetensors_header import StoredTensor
from models.loaders.safetensors_index import SafetensorsFolder, read_safetensors
from models.loaders.safetensors_plan import plan_safetensors
from models.loaders.scaled_matrix import apply_scale
from models.loaders.steps import Step
from models.sizes import show_name
from models.weights import Matrix, Weights, cut

READABLE_DTYPES = ("F64", "F32", "F16", "BF16", FP8_DTYPE)


def load_safetensors(
    folder: Path,
    config: ModelConfig,
    device: torch.device | str,
    dtype: torch.dtype,
    progress: Progress = ignore_progress,
) -> Weights:
    """The weights of a folder, all in `dtype`.

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
        reader = _Reader(files.tensors, opened, scales, block, dtype)
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
    ) -> None:
        self._tensors = tensors
        self._opened = opened
        self._scales = scales
        self._block = block
        self._dtype = dtype

    def pieces(self, step: Step) -> Iterator[tuple[Piece, Matrix]]:
        name = step.source.name
        whole = self._read(name)
        if name in self._scales:
            whole = apply_scale(whole, self._read(self._scales[name]), self._block)
        for piece in step.pieces:
            yield piece, cut(whole, piece).to(self._dtype)

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


def _unreadable(file: Path, error: Exception) -> ModelFileError:
    return ModelFileError(
        f"{show_name(file)} cannot be read.", f"{error}.", "Download the file again."
    )
