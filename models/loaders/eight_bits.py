"""Which matrices of a safetensors folder are held in 8 bits, settled from headers alone.

8-bit floats stay what they are where kernels read them. Other matrices become integers where that
is asked for: not norms and biases, and not routers, whose small differences choose experts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from models.config import ModelConfig
from models.hf_folder import CONFIG, read_json
from models.hf_quantization import Block, block_of
from models.loaders.fp8_scales import scale_names
from models.loaders.safetensors_header import StoredTensor
from models.loaders.safetensors_index import SafetensorsFolder, read_safetensors
from models.loaders.safetensors_plan import plan_safetensors
from models.loaders.steps import Step
from models.parameters import Shape, Slot

FLOATS, INTEGERS = "F8_E4M3", "I8"
"""Types of planes, as `kernels/plane_format.py` has them."""
COLUMNS = 32
"""What a row's length must be a multiple of."""
_SCALE_COLUMNS = 128
"""What the columns of a block of scales must be a multiple of."""


@dataclass(frozen=True, slots=True)
class EightBits:
    types: dict[Slot, str]
    """Parameters that become planes -> `FLOATS` or `INTEGERS`."""
    expanded: int = 0
    """Matrices of 8-bit floats that are expanded although kernels are there for others."""
    unrounded: int = 0
    """Matrices that should become integers and cannot."""


def folder_eight_bits(folder: Path, config: ModelConfig, repacks: bool, rounds: bool) -> EightBits:
    """Of a folder; as `eight_bits`."""
    if not repacks and not rounds:
        return EightBits({})
    files = read_safetensors(folder)
    block = block_of(read_json(folder / CONFIG))
    return eight_bits(files, plan_safetensors(files, config), block, repacks, rounds)


def eight_bits(
    files: SafetensorsFolder,
    steps: Iterable[Step],
    block: Block | None,
    repacks: bool,
    rounds: bool,
) -> EightBits:
    """`repacks`: 8-bit floats stay as planes for kernels. `rounds`: other matrices become integers.

    A stack of experts that are stored in different ways is held in none.
    """
    if not repacks and not rounds:
        return EightBits({})
    scales = scale_names(files.tensors)
    found: dict[Slot, set[str | None]] = {}
    expanded = unrounded = 0
    for step in steps:
        name = step.source.name
        scale = files.tensors[scales[name]] if name in scales else None
        if len(step.source.shape) < 2 or any(one.slot.field == "router" for one in step.pieces):
            continue
        is_float = repacks and scale is not None
        kind = FLOATS if is_float and _keeps(step.source.shape, scale, block) else None
        expanded += is_float and kind is None
        if kind is None and rounds:
            kind = INTEGERS if step.source.shape[-1] % COLUMNS == 0 else None
            unrounded += kind is None
        for piece in step.pieces:
            found.setdefault(piece.slot, set()).add(kind)
    alike = {slot: kinds.pop() for slot, kinds in found.items() if len(kinds) == 1}
    types = {slot: kind for slot, kind in alike.items() if kind is not None}
    return EightBits(types, expanded, unrounded)


def eight_bit_bytes(shape: Shape) -> int:
    """Of a matrix [N, K] or a stack of them as planes: a byte each number, filled up to 64 columns,
    and a float32 scale for 128 of a row, both up to multiples of 128 bytes.
    """
    *stack, rows, columns = shape
    parts = rows * -(-columns // 64) * 64, rows * -(-columns // 128) * 4
    matrix = sum(-(-part // 128) * 128 for part in parts)
    for count in stack:
        matrix *= count
    return matrix


def _keeps(shape: Shape, scale: StoredTensor | None, block: Block | None) -> bool:
    """Whether planes hold a matrix of 8-bit floats with its scale."""
    if scale is None or len(shape) != 2 or shape[1] % COLUMNS:
        return False
    rows = shape[0]
    is_simple = scale.shape in ((), (1,), (1, 1), (rows,), (rows, 1))
    return is_simple or (block is not None and block[1] % _SCALE_COLUMNS == 0)
