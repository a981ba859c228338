"""Chooses who loads a model: our own backend, or llama.cpp, a safetensors folder after conversion.

Imports each backend only when it is used.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.backend_choice import BackendChoice, choose_backend, this_machine
from engine.error_values import EngineStopped
from engine.errors import UsageError
from engine.messages import Load, LoadOptions
from engine.model_fit import converted_context
from engine.worker.load_parts import Place, Progress, check_context, check_memory
from engine.worker.model import Model
from models.description import describe
from models.errors import LoadingStopped
from models.free_memory import free_memory
from models.model_description import ModelDescription
from models.sizes import show_text


def load(message: Load, progress: Progress) -> Model:
    """Raises UsageError, ModelFileError, OutOfMemory; EngineStopped when `progress` said no."""
    description = describe(Path(message.path))
    choice = choose_backend(message.options.backend, this_machine(), description)
    try:
        return _load(message, description, choice, progress)
    except LoadingStopped as error:
        raise EngineStopped(error.title, error.text, error.next_step) from error


def _load(
    message: Load, description: ModelDescription, choice: BackendChoice, progress: Progress
) -> Model:
    if choice.name == "torch_paged":
        device = _usable(choice.device)
        if device is not None:
            from engine.worker.loading_torch import load as load_torch

            return load_torch(message, description, device, progress)
        notice = "torch finds no CUDA device: llama.cpp is used."
        return _noticed(_load_llama(message, description, progress), notice)
    return _load_llama(message, description, progress)


def _usable(device: str) -> str | None:
    """None where the driver names a device that torch cannot use."""
    if device == "cpu":
        return device
    import torch

    return device if torch.cuda.is_available() else None


def _load_llama(message: Load, description: ModelDescription, progress: Progress) -> Model:
    _check_weights(message.options, description)
    from engine.worker.loading import load as load_gguf

    if description.format == "gguf":
        return load_gguf(message, progress)
    _check(message.options, description)
    path = _converted(message, description, progress)
    model = load_gguf(replace(message, path=str(path)), progress)
    loaded = replace(model.loaded, name=description.name, path=message.path)
    notice = f"Converted once to {loaded.quantization} for llama.cpp: {show_text(str(path))}."
    return _noticed(replace(model, loaded=loaded), notice)


def _check_weights(options: LoadOptions, description: ModelDescription) -> None:
    if options.weights == "auto":
        return
    is_folder = description.format == "safetensors"
    convert = "Run `localchat models convert --type q8_0` and leave weights at auto."
    raise UsageError(
        f"weights={options.weights} cannot be used with llama.cpp.",
        "It rounds a safetensors folder for our own backend.",
        convert if is_folder else "Leave weights at auto.",
    )


def _check(options: LoadOptions, description: ModelDescription) -> None:
    """What llama.cpp would refuse is refused before minutes go into a conversion."""
    from engine.backends.llama_cpp.kv_types import find_kv_type

    find_kv_type(options.kv_type)
    check_context(options.ctx)
    free_bytes = free_memory()
    choice = converted_context(description, options.kv_type, free_bytes, options.ctx)
    check_memory(description, choice, Place("memory", free_bytes), options)


def _converted(message: Load, description: ModelDescription, progress: Progress) -> Path:
    from models.conversion.cache import cached_conversion

    folder = message.options.converted_folder
    if folder is None:
        raise UsageError(
            f"{description.name} must be converted before llama.cpp can run it.",
            "There is no folder for the converted file.",
            "Run `localchat models convert`.",
        )
    return cached_conversion(description.path, Path(folder), progress=progress)


def _noticed(model: Model, notice: str) -> Model:
    loaded = replace(model.loaded, notices=(*model.loaded.notices, notice))
    return replace(model, loaded=loaded)
