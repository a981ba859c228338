"""Loads a GGUF model for llama.cpp: header, settings, memory, tokenizer, weights, context.

In that order, so that everything that can be refused is refused before memory is taken. Knows no
pipe and no thread.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
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
from engine.config import EngineConfig
from engine.engine import Engine
from engine.error_values import EngineStopped
from engine.errors import LocalchatError, OutOfMemory, UsageError
from engine.messages import Load, Loaded, LoadOptions
from engine.worker.model import Model
from engine.worker.sampling_defaults import sampling_defaults
from models.description import describe
from models.free_memory import free_memory
from models.memory import ContextChoice, choose_context, trained_context
from models.model_description import ModelDescription
from models.sizes import show_bytes
from models.templates.formatter import ChatFormatter
from models.templates.thinking import thinking_tags
from models.templates.turns import Turn
from models.tokenizers.gguf_vocab import GGUFTokenizer

CACHE_SHARE = 4
"""Parked states and restore points get a quarter of the memory that is free at load."""
CACHE_LIMIT_BYTES = 4 << 30
LEAST_CONTEXT = 64


def load(message: Load, progress: Callable[[int, int], bool]) -> Model:
    """Raises UsageError, ModelFileError, OutOfMemory; EngineStopped when `progress` said no."""
    began = time.monotonic()
    options = message.options
    find_kv_type(options.kv_type)
    _check_context(options.ctx)
    description = describe(Path(message.path))
    free_bytes = free_memory()
    choice = choose_context(
        description, options.kv_type, free_bytes, options.ctx, flash=bool(options.flash)
    )
    _check_memory(description, choice, free_bytes, options)
    with ExitStack() as stack:  # unwound on failure, handed to the model otherwise
        return _open(message, description, choice, _Opening(free_bytes, began), progress, stack)


class _Opening:
    """Free memory, time (monotonic clock) and other programs' load at the begin of the load."""

    def __init__(self, free_bytes: int, began: float) -> None:
        self.cache_bytes = min(free_bytes // CACHE_SHARE, CACHE_LIMIT_BYTES)
        self.began = began
        self.foreign_load = foreign_load()
        self.foreign_load.sample(began)


def _open(
    message: Load,
    description: ModelDescription,
    choice: ContextChoice,
    opening: _Opening,
    progress: Callable[[int, int], bool],
    stack: ExitStack,
) -> Model:
    """Everything opened lies on the stack, which the model's `close` unwinds."""
    options = message.options
    tokenizer = GGUFTokenizer(description.path)
    stack.callback(tokenizer.close)
    formatter = ChatFormatter(tokenizer, description.template)
    stack.callback(formatter.close)
    threading.Thread(target=_warm_up, args=(formatter,), daemon=True).start()
    weights = _weights(description, progress)
    stack.callback(weights.close)
    cache = Path(options.cache_folder) if options.cache_folder else None
    tuning = cache if options.self_tune else None
    config = _config(options, opening, formatter)
    asked = ContextSettings(
        choice.ctx,
        options.kv_type,
        options.flash,
        options.threads,
        points_bytes=config.cache_bytes,
    )
    backend = LlamaCppBackend(weights, tuned_settings(asked, description.fingerprint, tuning))
    stack.callback(backend.close)
    fingerprint = _fingerprint(description, backend)
    engine = Engine(
        backend,
        ChatVocabulary(tokenizer, formatter.thinking),
        replace(config, fingerprint=fingerprint, micro_batch=backend.settings.n_ubatch),
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
        fingerprint=fingerprint,
        close=stack.pop_all().close,
        saved_folder=cache,
        saved_bytes=options.saved_states_bytes,
        canonical=options.canonical,
    )


def _warm_up(formatter: ChatFormatter) -> None:
    """Starts the template's process while the weights are read: the first answer need not wait."""
    try:
        formatter.prompt([Turn("user", "Hello")])
    except LocalchatError:
        pass  # the first question is told what is wrong


def _weights(description: ModelDescription, progress: Callable[[int, int], bool]) -> LoadedModel:
    options = BackendOptions(total_bytes=description.file_bytes)
    try:
        if progress(0, description.file_bytes):
            return load_model(description.path, options, progress)
    except LoadCancelled:
        pass
    raise EngineStopped("Loading was stopped.")


def _config(options: LoadOptions, opening: _Opening, formatter: ChatFormatter) -> EngineConfig:
    wanted = options.cache_bytes
    config = EngineConfig(
        step_ms_streaming=options.step_ms_streaming,
        step_ms=options.step_ms,
        speculate=options.speculate,
        cache_bytes=opening.cache_bytes if wanted is None else wanted,
    )
    tags = formatter.thinking
    return config if tags is None else replace(config, think_tags=(tags.open, tags.close))


def _check_context(ctx: int | None) -> None:
    if ctx is not None and ctx < LEAST_CONTEXT:
        raise UsageError(f"A context of {ctx} tokens is too short.", "", "Use 64 or more.")


def _check_memory(
    description: ModelDescription, choice: ContextChoice, free_bytes: int, options: LoadOptions
) -> None:
    if choice.fits or options.ignore_memory:
        return
    needed = choice.estimate
    raise OutOfMemory(
        f"{description.name} does not fit into the memory.",
        f"It needs about {show_bytes(needed.total)} with a context of {choice.ctx:,} tokens: "
        f"{show_bytes(needed.weights)} of weights, {show_bytes(needed.kv)} of KV and "
        f"{show_bytes(needed.compute)} to compute; {show_bytes(free_bytes)} are free.",
        "Close other programs, set a smaller ctx, or choose a smaller model.",
    )


def _fingerprint(description: ModelDescription, backend: LlamaCppBackend) -> str:
    """Everything that a kept state depends on."""
    parts = (
        description.fingerprint,
        description.tokenizer,
        description.template_hash,
        backend.facts.numerics,
        backend.facts.kv_type,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


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
        notices=(*backend.notices, *_context_notices(description, choice, message.options)),
        fits=choice.fits,
    )


def _context_notices(
    description: ModelDescription, choice: ContextChoice, options: LoadOptions
) -> tuple[str, ...]:
    """A context that differs from the trained one without having been asked for, or exceeds it."""
    trained, _ = trained_context(description)
    unusual = choice.ctx > trained if options.ctx else choice.ctx < trained
    if unusual or description.ctx_train != trained:
        return (f"Context {choice.ctx:,} tokens: {choice.reason}.",)
    return ()
