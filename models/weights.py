"""A decoder's parameters as tensors, and how they are gathered from a checkpoint's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.linear import Projection, Weight
from kernels.weight_planes import PlaneWeight
from models.config import ModelConfig
from models.errors import ModelFileError
from models.hf_names import Piece, hf_name, pieces_of
from models.parameters import Slot, parameter_shapes

Matrix = Weight
"""[out, in]; a stack of experts [E, out, in]."""


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer; what a family does not have is None. Conventions are those of Hugging Face."""

    attention_norm: Tensor
    q: Matrix | None
    k: Matrix | None
    v: Matrix | None
    o: Matrix
    feed_forward_norm: Tensor
    q_bias: Tensor | None = None
    k_bias: Tensor | None = None
    v_bias: Tensor | None = None
    o_bias: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    post_attention_norm: Tensor | None = None
    post_feed_forward_norm: Tensor | None = None
    gate: Matrix | None = None
    up: Matrix | None = None
    down: Matrix | None = None
    router: Matrix | None = None
    experts_gate: Matrix | None = None
    experts_up: Matrix | None = None
    experts_down: Matrix | None = None
    qkv: Projection | None = None
    """q, k and v as one matrix, in their place."""


@dataclass(frozen=True, slots=True)
class Weights:
    """All parameters; a tied `output` is the very object `embedding`."""

    embedding: Matrix
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    output: Matrix

    @property
    def dtype(self) -> torch.dtype:
        """That of the activations, which is the norms'."""
        return self.norm.dtype


def weights_from_slots(slots: Mapping[Slot, Matrix], config: ModelConfig) -> Weights:
    """`Weights` of one value for each slot of `parameter_shapes`.

    An output that a checkpoint of a tied model keeps beside the embedding is used where it differs,
    as transformers does. Raises ModelFileError for a missing parameter, a left-over one or a shape
    that does not follow from the config.
    """
    _check(slots, config)
    embedding = slots[Slot(None, "embedding")]
    layers = tuple(
        # `parameter_shapes` names the fields, and `_check` has compared the slots with it.
        LayerWeights(**{slot.field: value for slot, value in slots.items() if slot.layer == index})  # type: ignore[arg-type]
        for index in range(len(config.layers))
    )
    output = slots.get(Slot(None, "output"), embedding)
    if config.tied and _equal(output, embedding):
        output = embedding
    norm = slots[Slot(None, "norm")]
    assert isinstance(norm, Tensor)
    return Weights(embedding, layers, norm, output)


def weights_from_state(state: Mapping[str, Tensor], config: ModelConfig) -> Weights:
    """`Weights` of a checkpoint's tensors under their Hugging Face names.

    Tensors keep their dtype and device; matrices cut from a fused one are views of it. Each
    parameter is used exactly once. Raises UnsupportedModel for a name that is unknown,
    ModelFileError for one that is missing or comes twice.
    """
    slots: dict[Slot, Matrix] = {}
    stacks: dict[Slot, dict[int, Tensor]] = {}
    for name, tensor in state.items():
        pieces = pieces_of(name, config)
        check_rows(name, tensor.shape, pieces)
        for piece in pieces:
            into = slots if piece.expert is None else stacks.setdefault(piece.slot, {})
            key = piece.slot if piece.expert is None else piece.expert
            if key in into:
                raise _damaged(f"{name} fills a place that another parameter fills too.")
            # The two lines above choose a table and the key that fits it together.
            into[key] = cut(tensor, piece)  # type: ignore[index]
    for slot, stack in stacks.items():
        slots[slot] = _stacked(slot, stack, config)
    return weights_from_slots(slots, config)


def cut(tensor: Tensor, piece: Piece) -> Tensor:
    """The piece's rows, a view."""
    if piece.rows is None:
        return tensor
    start, end = piece.rows
    return tensor.narrow(-2, start, end - start)


def check_rows(name: str, shape: Sequence[int], pieces: Sequence[Piece]) -> None:
    """Raises ModelFileError where a fused matrix has other rows than its pieces take."""
    rows = pieces[-1].rows if pieces else None
    if rows and (len(shape) < 2 or shape[-2] != rows[1]):
        raise _damaged(f"{name} has the shape {list(shape)} instead of {rows[1]} rows.")


def _stacked(slot: Slot, stack: dict[int, Tensor], config: ModelConfig) -> Tensor:
    missing = sorted(set(range(config.experts)) - set(stack))
    if missing:
        raise _damaged(f"Expert {missing[0]} of {hf_name(slot, config)} is missing.")
    return torch.stack([stack[index] for index in range(config.experts)])


def _check(slots: Mapping[Slot, Matrix], config: ModelConfig) -> None:
    shapes = parameter_shapes(config)
    for slot, shape in shapes.items():
        if slot not in slots:
            raise _damaged(f"{hf_name(slot, config)} is missing.")
        found = tuple(slots[slot].shape)
        if found != shape:
            name = hf_name(slot, config)
            raise _damaged(f"{name} has the shape {list(found)} instead of {list(shape)}.")
    extra = set(slots) - set(shapes) - {Slot(None, "output")}
    if extra:
        name = hf_name(min(extra, key=str), config)
        raise _damaged(f"{name} belongs to no part that the config describes.")


def _equal(one: Matrix, other: Matrix) -> bool:
    if one is other:
        return True
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    if isinstance(one, PlaneWeight) and isinstance(other, PlaneWeight):
        return one.type_name == other.type_name and torch.equal(one.data, other.data)
    return False


def _damaged(text: str) -> ModelFileError:
    return ModelFileError(
        "The model's parameters do not fit its config.",
        text,
        "Download the model again, all of its files.",
    )
