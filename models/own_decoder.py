"""Whether our own decoder runs a model, and as what: the one place where both file formats meet."""

from __future__ import annotations

import math

from models.config import ModelConfig
from models.folder_description import folder_config
from models.gguf_config import config_from_gguf
from models.hf_folder import read_folder
from models.loaders.gguf import TensorInfo
from models.loaders.split import read_model
from models.model_description import ModelDescription
from models.parameters import parameter_shapes

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_PLAIN_TYPES = frozenset(("F64", "F32", "F16", "BF16"))


def decoder_config(description: ModelDescription) -> ModelConfig:
    """Raises UnsupportedModel, naming what our decoder does not know."""
    if description.format == "safetensors":
        return folder_config(read_folder(description.path))
    return config_from_gguf(read_model(description.path))


def packed_types(description: ModelDescription) -> frozenset[str]:
    """Block types of the matrices that stay packed when they are loaded."""
    if description.format == "safetensors":
        return frozenset()
    tensors = read_model(description.path).tensors
    return frozenset(one.type.name for one in tensors if _stays_packed(one))


def loaded_bytes(description: ModelDescription, config: ModelConfig, dtype: str) -> int:
    """Memory of the weights when they are loaded: blocks stay packed, all else is in `dtype`."""
    size = DTYPE_BYTES[dtype]
    if description.format == "safetensors":
        return sum(math.prod(shape) for shape in parameter_shapes(config).values()) * size
    return sum(
        tensor.byte_count if _stays_packed(tensor) else math.prod(tensor.shape) * size
        for tensor in read_model(description.path).tensors
    )


def _stays_packed(tensor: TensorInfo) -> bool:
    return tensor.type.name not in _PLAIN_TYPES and len(tensor.shape) > 1
