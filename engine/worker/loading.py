"""Loads a GGUF model for llama.cpp: header, settings, memory, tokenizer, weights, context.

In that order, so that everything that can be refused is refused before memory is taken. Knows no
pipe and no thread.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from engine.backends.llama_cpp.backend import LlamaCppBackend
from engine.backends.llama_cpp.kv_types import find_kv_type
from engine.backends.llama_cpp.loader import LoadCancelled, load_model
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import BackendOptions, ContextSettings
from engine.backends.llama_cpp.upkeep import foreign_load, make_upkeep, tuned_settings
from engine.chat import Chat
from engine.chat_vocabulary import ChatVocabulary
from engine.engine import Engine
from engine.error_values import EngineStopped
from engine.messages import Load, Loaded
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
from engine.worker.model import Model
from engine.worker.sampling_defaults import sampling_defaults
from models.description import describe
from models.free_memory import free_memory
from models.memory import ContextChoice, choose_context
from models.model_description import ModelDescription
from models.templates.formatter import ChatFormatter
from models.templates.thinking import thinking_tags
from models.tokenizers.gguf_vocab import GGUFTokenizer


def load(message: Load, progress: Progress) -> Model:
    """Raises UsageError, ModelFileError, OutOfMemory; EngineStopped when `progress` said no."""
    began = time.monotonic()
    options = message.options
    find_kv_type(options.kv_type)
    check_context(options.ctx)
    description = describe(Path(message.path))
    free_bytes = free_memory()
    choice = choose_context(
        description, options.kv_type, free_bytes, options.ctx, flash=bool(options.flash)
    )
    check_memory(description, choice, Place("memory", free_bytes), options)
    with ExitStack() as stack:  # unwound on failure, handed to the model otherwise
        return _open(message, description, choice, _Opening(free_bytes, began), progress, stack)


class _Opening:
    """Free memory, time (monotonic clock) and other programs' load at the begin of the load."""

    def __init__(self, free_bytes: int, began: float) -> None:
        self.free_bytes = free_bytes
        self.began = began
        self.foreign_load = foreign_load()
        self.foreign_load.sample(began)


def _open(
    message: Load,
    description: ModelDescription,
    choice: ContextChoice,
    opening: _Opening,
    progress: Progress,
    stack: ExitStack,
) -> Model:
    """Everything opened lies on the stack, which the model's `close` unwinds."""
    options = message.options
    tokenizer = GGUFTokenizer(description.path)
    stack.callback(tokenizer.close)
    formatter = ChatFormatter(tokenizer, description.template)
    stack.callback(formatter.close)
    threading.Thread(target=warm_up, args=(formatter,), daemon=True).start()
    weights = _weights(description, progress)
    stack.callback(weights.close)
    cache = Path(options.cache_folder) if options.cache_folder else None
    tuning = cache if options.self_tune else None
    config = engine_config(options, cache_budget(options, opening.free_bytes), formatter)
    asked = ContextSettings(
        choice.ctx,
        options.kv_type,
        options.flash,
        options.threads,
        points_bytes=config.cache_bytes,
    )
    backend = LlamaCppBackend(weights, tuned_settings(asked, description.fingerprint, tuning))
    stack.callback(backend.close)
    identity = fingerprint(description, backend.facts)
    engine = Engine(
        backend,
        ChatVocabulary(tokenizer, formatter.thinking),
        replace(config, fingerprint=identity, micro_batch=backend.settings.n_ubatch),
    )
    exact = not backend.flash
    upkeep = make_upkeep(
        backend, weights, asked, description.fingerprint, tuning, opening.foreign_load
    )
    upkeep.begin(time.monotonic())
    return Model(
        loaded=_loaded(message, description, backend, choice, opening.began),
        engine=engine,
        backend=backend,
        chat=Chat(formatter, choice.ctx, sampling_defaults(description), exact=exact),
        upkeep=upkeep,
        fingerprint=identity,
        close=stack.pop_all().close,
        saved_folder=cache,
        saved_bytes=options.saved_states_bytes,
        canonical=options.canonical,
    )


def _weights(description: ModelDescription, progress: Progress) -> LoadedModel:
    options = BackendOptions(total_bytes=description.file_bytes)
    try:
        if progress(0, description.file_bytes):
            return load_model(description.path, options, progress)
    except LoadCancelled:
        pass
    raise EngineStopped("Loading was stopped.")


def _loaded(
    message: Load,
    description: ModelDescription,
    backend: LlamaCppBackend,
    choice: ContextChoice,
    began: float,
) -> Loaded:
    facts = backend.facts
    return Loaded(
        name=description.name,
        path=message.path,
        architecture=description.architecture,
        quantization=description.quantization,
        backend=facts.name,
        kv_type=facts.kv_type,
        ctx=facts.context,
        ctx_train=description.ctx_train or 0,
        threads=backend.threads,
        flash=backend.flash,
        weights_bytes=description.weights_bytes,
        kv_bytes_per_token=facts.kv_bytes_per_token,
        tokenizer=description.tokenizer,
        template="model file" if description.template else "none: completion mode",
        template_hash=description.template_hash,
        load_ms=1000 * (time.monotonic() - began),
        model_fingerprint=description.fingerprint,
        thinks=thinking_tags(description.template or "") is not None,
        notices=(*backend.notices, *context_notices(description, choice, message.options)),
        fits=choice.fits,
    )
