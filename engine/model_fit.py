"""Which backend a model gets on this machine, how long its context can be, and whether it fits.

From headers alone: loads nothing and imports no backend's code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.backend_choice import BackendChoice, Machine, choose_backend
from engine.backends.torch_paged.planning import PagedDevice, paged_settings, plan_paged
from models.memory import ContextChoice, choose_context
from models.model_description import ModelDescription
from models.own_decoder import decoder_config

_Q8_0_BYTES = 34 / 32
"""Of a value, once a folder is converted for llama.cpp."""


@dataclass(frozen=True, slots=True)
class ModelFit:
    backend: BackendChoice
    context: ContextChoice
    converts: bool = False
    """Whether it is converted to GGUF on its first use."""


def fit_of(description: ModelDescription, free_bytes: int, machine: Machine) -> ModelFit:
    """`free_bytes`: of the machine's own memory; a GPU says itself what it has."""
    backend = choose_backend("auto", machine, description)
    if backend.name == "torch_paged" and machine.gpu is not None:
        device = PagedDevice("cuda", machine.gpu.capability, machine.gpu.free_bytes)
        config = decoder_config(description)
        settings = paged_settings(config, device)
        return ModelFit(backend, plan_paged(description, config, device, settings).needed)
    if description.format == "safetensors":
        return ModelFit(backend, converted_context(description, "auto", free_bytes), True)
    return ModelFit(backend, choose_context(description, "auto", free_bytes))


def converted_context(
    description: ModelDescription, kv_type: str, free_bytes: int, wanted: int | None = None
) -> ContextChoice:
    """For a safetensors folder on llama.cpp."""
    size = int(description.parameters * _Q8_0_BYTES)
    return choose_context(replace(description, weights_bytes=size), kv_type, free_bytes, wanted)
