"""Which scale belongs to which fp8 matrix of a folder, and how many values each number covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.conversion.rows import Scale
from models.loaders.fp8_scales import Block, block_of, check_scale, scale_names
from models.loaders.safetensors_header import StoredTensor


def find_scales(
    tensors: Mapping[str, StoredTensor], config_json: Mapping[str, Any]
) -> dict[str, Scale]:
    """By the name of the matrix.

    Raises ModelFileError for an fp8 matrix without a scale, or with one of a wrong shape.
    """
    block = block_of(config_json)
    found = {}
    for name, scale_name in scale_names(tensors).items():
        check_scale(tensors[name], tensors[scale_name], block)
        found[name] = _scale(tensors[name], tensors[scale_name], block)
    return found


def _scale(matrix: StoredTensor, scale: StoredTensor, block: Block | None) -> Scale:
    rows, columns = matrix.shape
    count = scale.byte_count // {"F32": 4}.get(scale.dtype, 2)
    if count == 1:
        return Scale(scale, rows, columns)
    if block is None or count == rows:
        return Scale(scale, 1, columns)
    return Scale(scale, *block)
