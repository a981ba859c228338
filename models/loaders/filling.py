"""Runs the steps of a load: reads tensor after tensor, tells how far it is, can be stopped.

Nothing of what was read is kept when a load ends early, by an error or on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from kernels.quantized_weight import QuantizedWeight
from models.config import ModelConfig
from models.errors import LoadingStopped, ModelFileError, OutOfMemory
from models.hf_names import Piece
from models.loaders.steps import Step
from models.parameters import Slot
from models.sizes import show_bytes, show_name
from models.weights import Matrix, Weights, weights_from_slots

Progress = Callable[[int, int], bool]
"""Bytes done and in all -> whether to go on."""

Read = Callable[[Step], Iterable[tuple[Piece, Matrix]]]
"""The pieces of a step's tensor, on the device."""


def fill(steps: tuple[Step, ...], read: Read, config: ModelConfig, progress: Progress) -> Weights:
    """All weights.

    Raises:
        LoadingStopped: `progress` returned False.
        OutOfMemory: the device's memory does not suffice.
        ModelFileError: a tensor could not be read, or a parameter is not there exactly once.
    """
    total = sum(step.source.byte_count for step in steps)
    slots: dict[Slot, Matrix] = {}
    stacks: dict[Slot, dict[int, Matrix]] = {}
    done = 0
    for step in steps:
        if not progress(done, total):
            raise LoadingStopped("Loading was stopped.")
        for piece, value in _read_safely(step, read, done, total):
            _put(piece, value, slots, stacks, config)
        done += step.source.byte_count
    if not progress(done, total):
        raise LoadingStopped("Loading was stopped.")
    return weights_from_slots(slots, config)


def ignore_progress(done: int, total: int) -> bool:
    """For loads that nobody watches."""
    return True


def _read_safely(step: Step, read: Read, done: int, total: int) -> list[tuple[Piece, Matrix]]:
    try:
        return list(read(step))
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(
            "The weights do not fit into the device's memory.",
            f"It was full after {show_bytes(done)} of {show_bytes(total)}.",
            "Use a smaller quantization or model, or close what else uses the device.",
        ) from error
    except OSError as error:
        raise ModelFileError(
            f"{show_name(step.source.file)} cannot be read.",
            f"At the tensor {step.source.name} the system says: {error.strerror or error}.",
            "Check the disk, or download the file again.",
        ) from error


def _put(
    piece: Piece,
    value: Matrix,
    slots: dict[Slot, Matrix],
    stacks: dict[Slot, dict[int, Matrix]],
    config: ModelConfig,
) -> None:
    """Experts that lie one by one are stacked as soon as the last of a layer is there."""
    if piece.slot in slots:
        raise ModelFileError(f"The parameter {piece.slot} was read twice.")
    if piece.expert is None:
        slots[piece.slot] = value
        return
    stack = stacks.setdefault(piece.slot, {})
    stack[piece.expert] = value
    if len(stack) == config.experts:
        slots[piece.slot] = _stacked([stack[expert] for expert in range(config.experts)])
        del stacks[piece.slot]


def _stacked(matrices: list[Matrix]) -> Matrix:
    """[out, in] of each expert -> [E, out, in]; blocks stay packed where all are of one type."""
    packed = [one for one in matrices if isinstance(one, QuantizedWeight)]
    types = {one.type_name for one in packed}
    if len(packed) == len(matrices) and len(types) == 1:
        data = torch.stack([one.data for one in packed])
        return QuantizedWeight(data, types.pop(), (len(packed), *packed[0].shape))
    plain = [one for one in matrices if isinstance(one, Tensor)]
    dtype = plain[0].dtype if plain else torch.float32
    return torch.stack(
        [(one if isinstance(one, Tensor) else one.dequantize()).to(dtype) for one in matrices]
    )
