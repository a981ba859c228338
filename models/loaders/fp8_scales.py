"""8-bit float matrices and the scales they are worth nothing without.

A scale is one number for the whole matrix, one for each row, or one for each block of rows and
columns; the block's size is what config.json says, never a guess from shapes (a last block may be
cut short). However it is called, also `_inv`, it multiplies the stored values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models.errors import ModelFileError, UnsupportedModel
from models.loaders.safetensors_header import StoredTensor
from models.sizes import show_name

if TYPE_CHECKING:  # the rules are also for those who have no torch
    from torch import Tensor

FP8_DTYPE = "F8_E4M3"
SUFFIXES = ("_scale", "_scale_inv")
"""Of `x.weight`, giving `x.weight_scale`; `x.scale` is known too."""
SCALE_DTYPES = ("F32", "BF16", "F16")

_OF_ACTIVATIONS = re.compile(r".*\.(input|output|activation|k|v|q|kv)_scale(_inv)?")

Block = tuple[int, int]
"""Rows and columns that share a scale."""


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


def block_of(config: Mapping[str, Any]) -> Block | None:
    """What a `config.json` names under `quantization_config`; None where it names none."""
    quantization = config.get("quantization_config")
    if not isinstance(quantization, Mapping):
        return None
    given = quantization.get("weight_block_size") or _group_block(quantization)
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != 2 or not all(_is_count(one) for one in given):
        raise UnsupportedModel(
            "The model cannot be used.",
            "In config.json weight_block_size is not two counts.",
            "Use another version of the model.",
        )
    return given[0], given[1]


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


def apply_scale(weight: Tensor, scale: Tensor, block: Block | None) -> Tensor:
    """weight e4m3 [out, in], scale as `check_scale` allows -> float32 [out, in]."""
    wide, scale = weight.float(), scale.float()
    rows = weight.shape[0]
    if scale.numel() == 1:
        return wide * scale.reshape(())
    if block is None or scale.numel() == rows:
        return wide * scale.reshape(rows, 1)
    tall = scale.repeat_interleave(block[0], 0)[:rows]
    for index in range(scale.shape[1]):
        start = index * block[1]
        wide[:, start : start + block[1]] *= tall[:, index : index + 1]
    return wide


def _candidates(name: str) -> tuple[str, ...]:
    return (*(name + suffix for suffix in SUFFIXES), f"{name.removesuffix('.weight')}.scale")


def _group_block(quantization: Mapping[str, Any]) -> object:
    """Of the format compressed-tensors: every group of layers has to name the same."""
    groups = quantization.get("config_groups")
    if not isinstance(groups, Mapping):
        return None
    weights = [group.get("weights") for group in groups.values() if isinstance(group, Mapping)]
    blocks = [one.get("block_structure") for one in weights if isinstance(one, Mapping)]
    return blocks[0] if blocks and all(block == blocks[0] for block in blocks) else None


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _blocks(values: int, block: int) -> int:
    return -(-values // block)
