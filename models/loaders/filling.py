"""Runs the steps of a load: reads tensor after tensor, tells how far it is, can be stopped.

Nothing of what was read is kept when a load ends early, by an error or on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from kernels.quantized_weight import QuantizedWeight
from kernels.weight_planes import PlaneWeight
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
    collected = _Collected(config.experts)
    try:
        _collect(collected, steps, read, progress)
        return weights_from_slots(collected.slots, config)
    except BaseException:
        # The error's traceback keeps this frame, which must not keep the tensors.
        collected.forget()
        raise


def ignore_progress(done: int, total: int) -> bool:
    """For loads that nobody watches."""
    return True


class _Collected:
    """What was read so far."""

    def __init__(self, experts: int) -> None:
        self.slots: dict[Slot, Matrix] = {}
        self._stacks: dict[Slot, dict[int, Matrix]] = {}
        self._experts = experts

    def put(self, piece: Piece, value: Matrix) -> None:
        """Experts that lie one by one are stacked as soon as the last of a layer is there."""
        if piece.slot in self.slots:
            raise ModelFileError(f"The parameter {piece.slot} was read twice.")
        if piece.expert is None:
            self.slots[piece.slot] = value
            return
        stack = self._stacks.setdefault(piece.slot, {})
        stack[piece.expert] = value
        if len(stack) == self._experts:
            self.slots[piece.slot] = _stacked([stack[expert] for expert in range(self._experts)])
            del self._stacks[piece.slot]

    def forget(self) -> None:
        self.slots.clear()
        self._stacks.clear()


def _collect(
    collected: _Collected, steps: tuple[Step, ...], read: Read, progress: Progress
) -> None:
    total = sum(step.source.byte_count for step in steps)
    done = 0
    _go_on(progress, done, total)
    for step in steps:
        try:
            _take(collected, step, read)
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            raise OutOfMemory(
                "The weights do not fit into the device's memory.",
                f"It was full after {show_bytes(done)} of {show_bytes(total)}.",
                "Use a smaller quantization or model, or close what else uses the device.",
            ) from None
        done += step.source.byte_count
        _go_on(progress, done, total)


def _go_on(progress: Progress, done: int, total: int) -> None:
    if not progress(done, total):
        raise LoadingStopped("Loading was stopped.")


def _take(collected: _Collected, step: Step, read: Read) -> None:
    try:
        for piece, value in read(step):
            collected.put(piece, value)
    except OSError as error:
        raise ModelFileError(
            f"{show_name(step.source.file)} cannot be read.",
            f"At the tensor {step.source.name} the system says: {error.strerror or error}.",
            "Check the disk, or download the file again.",
        ) from error


def _is_out_of_memory(error: Exception) -> bool:
    """On a CPU torch raises a plain RuntimeError, which only its words tell from others."""
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or "not enough memory" in str(error) or "can't allocate memory" in str(error)


def _stacked(matrices: list[Matrix]) -> Matrix:
    """[out, in] of each expert -> [E, out, in]; blocks stay packed where all are of one type."""
    packed = [one for one in matrices if isinstance(one, QuantizedWeight)]
    types = {one.type_name for one in packed}
    if len(packed) == len(matrices) and len(types) == 1:
        data = torch.stack([one.data for one in packed])
        return QuantizedWeight(data, types.pop(), (len(packed), *packed[0].shape))
    planes = [one for one in matrices if isinstance(one, PlaneWeight)]
    types = {one.type_name for one in planes}
    if len(planes) == len(matrices) and len(types) == 1:
        data = torch.stack([one.data for one in planes])
        return PlaneWeight(data, types.pop(), (len(planes), *planes[0].shape))
    plain = [one for one in matrices if isinstance(one, Tensor)]
    dtype = plain[0].dtype if plain else torch.float32
    return torch.stack(
        [(one if isinstance(one, Tensor) else one.dequantize()).to(dtype) for one in matrices]
    )
