"""8-bit float matrices and the scales they are worth nothing without: names and shapes.

A scale is one number for the whole matrix, one for each row, or one for each block of rows and
columns; the block's size is what config.json says, never a guess from shapes (a last block may be
cut short). However it is called, also `_inv`, it multiplies the stored values. Needs no torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from models.errors import ModelFileError
from models.hf_quantization import Block, block_of
from models.loaders.safetensors_header import StoredTensor
from models.sizes import show_name

__all__ = ["Block", "block_of", "check_scale", "is_of_activations", "scale_names"]

FP8_DTYPE = "F8_E4M3"
SUFFIXES = ("_scale", "_scale_inv")
"""Of `x.weight`, giving `x.weight_scale`; `x.scale` is known too."""
SCALE_DTYPES = ("F32", "BF16", "F16")

_OF_ACTIVATIONS = re.compile(r".*\.(input|output|activation|k|v|q|kv)_scale(_inv)?")


def scale_names(tensors: Mapping[str, StoredTensor]) -> dict[str, str]:
    """Name of each 8-bit matrix -> name of its scale. Raises ModelFileError for one without."""
    names: dict[str, str] = {}
    for name, tensor in tensors.items():
        if tensor.dtype != FP8_DTYPE:
            continue
        found = [other for other in _candidates(name) if other in tensors]
        if len(found) != 1:
            count = "no scale" if not found else f"{len(found)} scales, {' and '.join(found)}"
            raise ModelFileError(
                f"{show_name(tensor.file)} cannot be used.",
                f"Its 8-bit tensor {name} has {count}.",
                "Download the model again, all of its files, or take another version of it.",
            )
        names[name] = found[0]
    return names


def is_of_activations(name: str) -> bool:
    """Scales for computing in 8 bit, which is not done here."""
    return _OF_ACTIVATIONS.fullmatch(name) is not None


def check_scale(weight: StoredTensor, scale: StoredTensor, block: Block | None) -> None:
    """Raises ModelFileError when the scale's shape or dtype does not fit its matrix."""
    rows, columns = weight.shape[-2:] if len(weight.shape) == 2 else (0, 0)
    shapes = [(), (1,), (rows,), (rows, 1), (1, 1)]
    if block is not None:
        shapes.append((_blocks(rows, block[0]), _blocks(columns, block[1])))
    if rows and scale.dtype in SCALE_DTYPES and scale.shape in shapes:
        return
    size = f"blocks of {block[0]} x {block[1]}" if block else "no block size in config.json"
    raise ModelFileError(
        f"{show_name(scale.file)} does not fit the model's config.",
        f"{scale.name} is {scale.dtype} of shape {list(scale.shape)} for a tensor of shape "
        f"{list(weight.shape)} and {size}.",
        "Download the model again, all of its files, or take another version of it.",
    )


def _candidates(name: str) -> tuple[str, ...]:
    return (*(name + suffix for suffix in SUFFIXES), f"{name.removesuffix('.weight')}.scale")


def _blocks(values: int, block: int) -> int:
    return -(-values // block)
