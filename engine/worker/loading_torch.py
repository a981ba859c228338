"""Loads a safetensors folder or a GGUF file for our own backend: description, plan, weights, pools.

What can be refused is refused before memory is taken. Knows no pipe and no thread.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from engine.backends.self_test_text import TEXT
from engine.backends.torch_paged.backend import TorchPagedBackend
from engine.backends.torch_paged.planning import (
    PagedDevice,
    PagedPlan,
    paged_settings,
    plan_paged,
)
from engine.backends.torch_paged.settings import PagedSettings
from engine.chat import Chat
from engine.chat_vocabulary import ChatVocabulary
from engine.engine import Engine
from engine.errors import OutOfMemory, UsageError
from engine.messages import Load, Loaded, LoadOptions
from engine.worker.load_parts import (
    Place,
    Progress,
    cache_budget,
    check_context,
    check_memory,
    context_notices,
    engine_config,
    fingerprint,
    warm_up,
)
from engine.worker.load_phases import LoadPhases
from engine.worker.model import Model, NoUpkeep
from engine.worker.sampling_defaults import sampling_defaults
from models.config import ModelConfig
from models.decoder import Decoder
from models.free_memory import free_memory
from models.loaders.eight_bits import FLOATS, INTEGERS, EightBits, folder_eight_bits
from models.loaders.gguf_weights import load_gguf
from models.loaders.safetensors_weights import load_safetensors
from models.model_description import ModelDescription
from models.ops import KernelMissing, KernelSettings
from models.own_decoder import decoder_config, expanded_types
from models.probe import check_finite
from models.templates.formatter import ChatFormatter
from models.templates.thinking import thinking_tags
from models.tokenizers.base import Tokenizer
from models.tokenizers.gguf_vocab import GGUFTokenizer
from models.tokenizers.hf_tokenizer import HFTokenizer
from models.weights import Weights


def load(message: Load, description: ModelDescription, device: str, progress: Progress) -> Model:
    """`device`: `cpu` or `cuda`. Raises UsageError, ModelFileError, OutOfMemory, LoadingStopped."""
    began = time.monotonic()
    options = message.options
    check_context(options.ctx)
    _check_weights(options, description)
    config = decoder_config(description)
    place = _device(device)
    settings = paged_settings(config, place, options.kv_type, options.kernels, options.weights)
    plan = plan_paged(description, config, place, settings, options.ctx)
    where = "memory" if device == "cpu" else "GPU's memory"
    check_memory(description, plan.needed, Place(where, place.free_bytes), options)
    with ExitStack() as stack:  # unwound on failure, handed to the model otherwise
        return _open(_Job(message, description, config, plan, began), progress, stack)


def _check_weights(options: LoadOptions, description: ModelDescription) -> None:
    if options.weights != "auto" and description.format == "gguf":
        raise UsageError(
            f"weights={options.weights} cannot be used with {description.name}.",
            "It is for safetensors folders; a GGUF file has a type of its own.",
            "Leave weights at auto.",
        )


@dataclass(frozen=True, slots=True)
class _Job:
    message: Load
    description: ModelDescription
    config: ModelConfig
    plan: PagedPlan
    began: float
    """On the monotonic clock."""


def _open(job: _Job, progress: Progress, stack: ExitStack) -> Model:
    """Everything opened lies on the stack, which the model's `close` unwinds."""
    options, description = job.message.options, job.description
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    free_bytes = free_memory()
    tokenizer = open_tokenizer(description)
    stack.callback(tokenizer.close)
    formatter = ChatFormatter(tokenizer, description.template)
    stack.callback(formatter.close)
    threading.Thread(target=warm_up, args=(formatter,), daemon=True).start()
    backend = _backend(job, tokenizer, progress)
    stack.callback(backend.close)
    identity = fingerprint(description, backend.facts)
    config = engine_config(options, cache_budget(options, free_bytes), formatter)
    engine = Engine(
        backend,
        ChatVocabulary(tokenizer, formatter.thinking),
        replace(
            config,
            fingerprint=identity,
            chunk=backend.facts.max_rows - backend.facts.max_sequences,
            micro_batch=backend.settings.block,
        ),
    )
    return Model(
        loaded=_loaded(job, backend),
        engine=engine,
        backend=backend,
        chat=Chat(
            formatter,
            backend.facts.context,
            sampling_defaults(description),
            exact=backend.facts.exact_batching,
        ),
        upkeep=NoUpkeep(torch.get_num_threads()),
        fingerprint=identity,
        close=stack.pop_all().close,
        saved_folder=Path(options.cache_folder) if options.cache_folder else None,
        saved_bytes=options.saved_states_bytes,
        canonical=options.canonical,
    )


def _device(name: str) -> PagedDevice:
    if name == "cpu":
        return PagedDevice("cpu", None, free_memory())
    free_bytes, _ = torch.cuda.mem_get_info()
    return PagedDevice(name, torch.cuda.get_device_capability(), int(free_bytes))


def open_tokenizer(description: ModelDescription) -> Any:
    """A `Tokenizer` with `close`."""
    kinds = {"safetensors": HFTokenizer, "gguf": GGUFTokenizer}
    return kinds[description.format](description.path)


def _backend(job: _Job, tokenizer: Tokenizer, progress: Progress) -> TorchPagedBackend:
    settings = replace(
        job.plan.settings,
        vocab_size=min(tokenizer.vocab_size, job.config.vocab_size),
        test_ids=tokenizer.encode(TEXT) if job.plan.settings.kv_type == "q4" else (),
    )
    phases = LoadPhases(progress, settings.records)
    try:
        decoder = _decoder(job, settings, phases.reading)
        backend = TorchPagedBackend(decoder, job.config, settings)
    except KernelMissing as error:
        raise UsageError(
            "kernels=triton cannot run this model here.",
            f"A kernel is missing for {error}.",
            "Leave kernels at auto.",
        ) from None
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(
            "The GPU's memory does not suffice.",
            str(error).splitlines()[0],
            "Use a smaller model or ctx, or close what else uses the GPU.",
        ) from None
    backend.warm_up(phases.recording)
    return backend


def _decoder(job: _Job, settings: PagedSettings, progress: Progress) -> Decoder:
    """Of what was read and made anew nothing is held when it returns: the pools take the rest."""
    weights = _weights(job, progress)
    kernels = KernelSettings.of(weights.norm.device, settings.kernels)
    decoder = Decoder(job.config, weights, settings.ctx, kernels)
    check_finite(decoder, job.description.name)
    return decoder


def _weights(job: _Job, progress: Progress) -> Weights:
    settings = job.plan.settings
    place = job.description.path, job.config, settings.device, getattr(torch, settings.dtype)
    if job.description.format == "safetensors":
        return load_safetensors(*place, progress, settings.repacks, settings.rounds)
    return load_gguf(*place, progress, settings.repacks)


def _expanded(job: _Job) -> tuple[str, ...]:
    """What takes more memory than its file, as no kernel reads it."""
    settings = job.plan.settings
    if job.description.format == "safetensors":
        return _left_out(_eight_bits(job), settings.dtype)
    if not settings.repacks:
        return ()
    return tuple(
        f"Weights of type {name} are expanded to {settings.dtype}: no kernel reads them."
        for name in sorted(expanded_types(job.description))
    )


def _left_out(found: EightBits, dtype: str) -> tuple[str, ...]:
    told = []
    if found.expanded:
        told.append(
            f"8-bit float matrices expanded to {dtype}: {found.expanded:,}; no kernel reads their "
            "shape or scales."
        )
    if found.unrounded:
        told.append(
            f"Matrices that stay {dtype} although weights=int8: {found.unrounded:,}; their rows "
            "are no multiple of 32 numbers."
        )
    return tuple(told)


def _eight_bits(job: _Job) -> EightBits:
    settings = job.plan.settings
    return folder_eight_bits(job.description.path, job.config, settings.repacks, settings.rounds)


def _quantization(job: _Job) -> str:
    """What the weights really are."""
    if not job.plan.settings.rounds:
        return job.description.quantization
    types = set(_eight_bits(job).types.values())
    names = [name for kind, name in ((FLOATS, FLOATS), (INTEGERS, "INT8")) if kind in types]
    return " and ".join(names) or job.description.quantization


def _loaded(job: _Job, backend: TorchPagedBackend) -> Loaded:
    description, facts = job.description, backend.facts
    return Loaded(
        name=description.name,
        path=job.message.path,
        architecture=description.architecture,
        quantization=_quantization(job),
        backend=facts.name,
        kv_type=facts.kv_type,
        ctx=facts.context,
        ctx_train=description.ctx_train or 0,
        threads=torch.get_num_threads(),
        flash=False,
        weights_bytes=job.plan.predicted.weights,
        kv_bytes_per_token=facts.kv_bytes_per_token,
        tokenizer=description.tokenizer,
        template="model file" if description.template else "none: completion mode",
        template_hash=description.template_hash,
        load_ms=1000 * (time.monotonic() - job.began),
        model_fingerprint=description.fingerprint,
        thinks=thinking_tags(description.template or "") is not None,
        notices=(
            *backend.notices,
            *_expanded(job),
            *context_notices(description, job.plan.needed, job.message.options),
        ),
        fits=job.plan.needed.fits,
    )
