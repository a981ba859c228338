"""Which tensors a converted file holds, of what type and from which rows: settled before writing.

llama.cpp's conventions are applied here and nowhere else: Q and K rows of the llama family lie in
another order, Gemma's norms have their 1 added, Phi-3's matrices stay fused, experts are stacked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from models.config import ModelConfig
from models.conversion.hyperparameters import ARCHITECTURES, Architecture
from models.conversion.rope_scaling import rope_tensors
from models.conversion.rows import Floats, Rows, read_rows
from models.conversion.scales import find_scales
from models.hf_names import hf_name, pieces_of
from models.loaders.fp8_scales import is_of_activations
from models.loaders.safetensors_index import SafetensorsFolder
from models.loaders.steps import Source, plan_steps
from models.parameters import Slot, parameter_shapes

Kind = Literal["Q8_0", "F16", "BF16", "F32"]


@dataclass(frozen=True)
class PlannedTensor:
    name: str
    shape: tuple[int, ...]
    """torch's order: rows of `shape[-1]` values."""
    type: str
    """GGUF's name of the storage type."""
    rows: tuple[Rows, ...] = ()
    """One below the other."""
    order: npt.NDArray[np.int64] | None = None
    """Of all rows; only where they come from one tensor."""
    offset: float = 0.0
    """Added to every value."""
    given: Floats | None = None
    """Values that no file holds."""

    def read(self) -> Iterator[Floats]:
        """Chunks of whole rows, in order."""
        if self.given is not None:
            yield self.given
        for rows in self.rows:
            for chunk in read_rows(rows, self.order):
                yield chunk + np.float32(self.offset) if self.offset else chunk


FIELDS: dict[str, str] = {
    "embedding": "TOKEN_EMBD",
    "norm": "OUTPUT_NORM",
    "output": "OUTPUT",
    "attention_norm": "ATTN_NORM",
    "q": "ATTN_Q",
    "k": "ATTN_K",
    "v": "ATTN_V",
    "qkv": "ATTN_QKV",
    "o": "ATTN_OUT",
    "q_norm": "ATTN_Q_NORM",
    "k_norm": "ATTN_K_NORM",
    "post_attention_norm": "ATTN_POST_NORM",
    "feed_forward_norm": "FFN_NORM",
    "post_feed_forward_norm": "FFN_POST_NORM",
    "gate": "FFN_GATE",
    "up": "FFN_UP",
    "down": "FFN_DOWN",
    "router": "FFN_GATE_INP",
    "experts_gate": "FFN_GATE_EXP",
    "experts_up": "FFN_UP_EXP",
    "experts_down": "FFN_DOWN_EXP",
}
"""Our names of parameters -> the gguf package's."""
_FUSED = {"qkv": ("q", "k", "v"), "up": ("gate", "up")}
_ALWAYS_F32 = ("router",)


def plan_tensors(
    config: ModelConfig, folder: SafetensorsFolder, config_json: Mapping[str, Any], kind: Kind
) -> tuple[PlannedTensor, ...]:
    """In the order of the layers.

    Raises:
        UnsupportedModel: a tensor's name means nothing, or its dtype holds no weights.
        ModelFileError: a parameter is missing, comes twice or has a wrong shape.
    """
    architecture = ARCHITECTURES[config.family]
    found = _rows_by_slot(config, folder, config_json)
    shapes = parameter_shapes(config)
    planned = [
        _planned(slot, shapes[slot], found[slot], config, architecture, kind) for slot in shapes
    ]
    if architecture.fused:
        planned = list(_fused(planned, shapes, found, kind))
    ropes = (
        PlannedTensor(name, values.shape, "F32", given=values)
        for name, values in rope_tensors(config).items()
    )
    return (*ropes, *planned)


def _rows_by_slot(
    config: ModelConfig, folder: SafetensorsFolder, config_json: Mapping[str, Any]
) -> dict[Slot, tuple[Rows, ...]]:
    """Every parameter's rows; of stacked experts in their order."""
    scales = find_scales(folder.tensors, config_json)
    beside = {scale.tensor.name for scale in scales.values()}
    steps = plan_steps(
        (
            Source(one.name, one.shape, one.byte_count, one.file)
            for one in folder.tensors.values()
            if one.name not in beside
        ),
        lambda name: () if is_of_activations(name) else pieces_of(name, config),
        lambda slot: hf_name(slot, config),
        config,
    )
    parts: dict[Slot, dict[int, list[Rows]]] = {}
    for step in steps:
        tensor = folder.tensors[step.source.name]
        for piece in step.pieces:
            ranges = _row_ranges(tensor.shape, piece.rows)
            rows = [Rows(tensor, a, b, scales.get(tensor.name)) for a, b in ranges]
            parts.setdefault(piece.slot, {})[piece.expert or 0] = rows
    return {
        slot: tuple(rows for _, part in sorted(found.items()) for rows in part)
        for slot, found in parts.items()
    }


def _row_ranges(
    shape: tuple[int, ...], rows: tuple[int, int] | None
) -> tuple[tuple[int, int], ...]:
    """First and last+1 row, in a matrix of the last dim; a stack has the rows of each expert."""
    if len(shape) < 3:
        return (rows or (0, shape[0]),)
    first, last = rows or (0, shape[1])
    return tuple((e * shape[1] + first, e * shape[1] + last) for e in range(shape[0]))


def _planned(
    slot: Slot,
    shape: tuple[int, ...],
    rows: tuple[Rows, ...],
    config: ModelConfig,
    architecture: Architecture,
    kind: Kind,
) -> PlannedTensor:
    field = slot.field
    heads = {"q": config.heads, "k": config.kv_heads}.get(field.removesuffix("_bias"), 0)
    return PlannedTensor(
        name=gguf_name(slot),
        shape=shape,
        type=_type(field, shape, kind),
        rows=rows,
        order=_interleaved(shape[0], heads) if heads and architecture.interleaved else None,
        offset=config.norm_offset if field == "norm" or field.endswith("_norm") else 0.0,
    )


def _fused(
    planned: list[PlannedTensor],
    shapes: Mapping[Slot, tuple[int, ...]],
    found: Mapping[Slot, tuple[Rows, ...]],
    kind: Kind,
) -> Iterator[PlannedTensor]:
    """The same tensors with Phi-3's matrices put together where the first of them was."""
    target = {part: whole for whole, parts in _FUSED.items() for part in parts}
    for slot, tensor in zip(shapes, planned, strict=True):
        whole = target.get(slot.field)
        if slot.layer is None or whole is None:
            yield tensor
        elif slot.field == _FUSED[whole][0]:
            slots = [Slot(slot.layer, part) for part in _FUSED[whole]]
            shape = (sum(shapes[one][0] for one in slots), tensor.shape[1])
            rows = tuple(rows for one in slots for rows in found[one])
            name = gguf_name(Slot(slot.layer, whole))
            yield PlannedTensor(name, shape, _type(whole, shape, kind), rows)


def gguf_name(slot: Slot) -> str:
    """By the gguf package's table."""
    import gguf

    field = slot.field.removesuffix("_bias")
    suffix = "weight" if field == slot.field else "bias"
    name: str = gguf.TENSOR_NAMES[gguf.MODEL_TENSOR[FIELDS[field]]]
    return f"{name.format(bid=slot.layer)}.{suffix}"


def _type(field: str, shape: tuple[int, ...], kind: Kind) -> str:
    """As llama.cpp's own converter chooses: vectors and routers stay exact."""
    if len(shape) == 1 or field in _ALWAYS_F32:
        return "F32"
    return "F16" if kind == "Q8_0" and shape[-1] % 32 else kind


def _interleaved(rows: int, heads: int) -> npt.NDArray[np.int64]:
    """Halves of a head, one behind the other, become pairs that lie side by side."""
    size = rows // heads
    order = np.arange(rows).reshape(heads, 2, size // 2)
    return order.swapaxes(1, 2).reshape(rows)
