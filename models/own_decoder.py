"""Whether our own decoder runs a model, and as what: the one place where both file formats meet."""

from __future__ import annotations

import math

from models.config import ModelConfig
from models.folder_description import folder_config
from models.gguf_config import config_from_gguf
from models.hf_folder import read_folder
from models.loaders.eight_bits import eight_bit_bytes, folder_eight_bits
from models.loaders.gguf import TensorInfo
from models.loaders.split import read_model
from models.model_description import ModelDescription
from models.parameters import parameter_shapes

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
PLANE_BYTES = {
    "Q4_0": 144,
    "Q4_1": 160,
    "Q5_0": 176,
    "Q5_1": 192,
    "Q8_0": 272,
    "Q2_K": 84,
    "Q3_K": 116,
    "Q4_K": 148,
    "Q5_K": 180,
    "Q6_K": 212,
    "IQ4_NL": 144,
    "IQ4_XS": 144,
    "MXFP4": 144,
}
"""Of 256 values, by block type, once they are repacked for kernels (`kernels/plane_format.py`)."""
_PLAIN_TYPES = frozenset(("F64", "F32", "F16", "BF16"))


def decoder_config(description: ModelDescription) -> ModelConfig:
    """Raises UnsupportedModel, naming what our decoder does not know."""
    if description.format == "safetensors":
        return folder_config(read_folder(description.path))
    return config_from_gguf(read_model(description.path))


def packed_types(
    description: ModelDescription, repacks: bool = False, rounds: bool = False
) -> frozenset[str]:
    """Types of the matrices that are packed when they are loaded. `repacks`: for kernels, so that
    what they cannot read is expanded; `rounds`: matrices of safetensors become 8-bit integers.
    """
    if description.format == "safetensors":
        if not repacks and not rounds:
            return frozenset()
        config = decoder_config(description)
        found = folder_eight_bits(description.path, config, repacks, rounds)
        return frozenset(found.types.values())
    tensors = read_model(description.path).tensors
    return frozenset(one.type.name for one in tensors if _stays_packed(one, repacks))


def expanded_types(description: ModelDescription) -> frozenset[str]:
    """Block types of the matrices that no kernel reads."""
    return packed_types(description) - packed_types(description, repacks=True)


def loaded_bytes(
    description: ModelDescription,
    config: ModelConfig,
    dtype: str,
    repacks: bool = False,
    rounds: bool = False,
) -> int:
    """Memory of the weights when they are loaded: what is packed as `packed_types` says, all else
    is in `dtype`.
    """
    size = DTYPE_BYTES[dtype]
    if description.format == "safetensors":
        types = folder_eight_bits(description.path, config, repacks, rounds).types
        return sum(
            eight_bit_bytes(shape) if slot in types else math.prod(shape) * size
            for slot, shape in parameter_shapes(config).items()
        )
    tensors = read_model(description.path).tensors
    return sum(_loaded_bytes(tensor, size, repacks) for tensor in tensors)


def _loaded_bytes(tensor: TensorInfo, value_bytes: int, repacks: bool) -> int:
    values = math.prod(tensor.shape)
    if not _stays_packed(tensor, repacks):
        return values * value_bytes
    return values * PLANE_BYTES[tensor.type.name] // 256 if repacks else tensor.byte_count


def _stays_packed(tensor: TensorInfo, repacks: bool) -> bool:
    is_packed = tensor.type.name not in _PLAIN_TYPES and len(tensor.shape) > 1
    return is_packed and (not repacks or tensor.type.name in PLANE_BYTES)
