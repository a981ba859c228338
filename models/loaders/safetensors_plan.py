"""What of a safetensors folder fills which parameter, from headers alone and without torch."""

from __future__ import annotations

from models.config import ModelConfig
from models.hf_names import hf_name, pieces_of
from models.loaders.fp8_scales import is_of_activations, scale_names
from models.loaders.safetensors_index import SafetensorsFolder
from models.loaders.steps import Source, Step, plan_steps


def plan_safetensors(files: SafetensorsFolder, config: ModelConfig) -> tuple[Step, ...]:
    """In the order of the files; scales of 8-bit matrices have no step of their own.

    Raises:
        UnsupportedModel: a tensor has an unknown name.
        ModelFileError: a parameter or scale is missing, comes twice or has a wrong shape.
    """
    scales = frozenset(scale_names(files.tensors).values())
    sources = [
        Source(tensor.name, tensor.shape, tensor.byte_count, tensor.file)
        for shard in files.shards
        for tensor in shard.tensors
        if tensor.name not in scales
    ]
    return plan_steps(
        sources,
        lambda name: () if is_of_activations(name) else pieces_of(name, config),
        lambda slot: hf_name(slot, config),
        config,
    )
