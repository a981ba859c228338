"""What loading a model has in common on every backend: checks, words and identity.

Knows no weights and no backend's code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.backends.base import BackendFacts
from engine.config import EngineConfig
from engine.errors import LocalchatError, OutOfMemory, UsageError
from engine.messages import LoadOptions
from models.memory import ContextChoice, trained_context
from models.model_description import ModelDescription
from models.sizes import show_bytes
from models.templates.formatter import ChatFormatter
from models.templates.turns import Turn

Progress = Callable[[int, int], bool]
"""(done bytes, total bytes) -> whether to go on."""

CACHE_SHARE = 4
"""Parked states and restore points get a quarter of the memory that is free at load."""
CACHE_LIMIT_BYTES = 4 << 30
LEAST_CONTEXT = 64


@dataclass(frozen=True, slots=True)
class Place:
    """Whose memory a model has to fit into."""

    name: str
    """`memory`, or the device's name."""
    free_bytes: int


def check_context(ctx: int | None) -> None:
    if ctx is not None and ctx < LEAST_CONTEXT:
        raise UsageError(f"A context of {ctx} tokens is too short.", "", "Use 64 or more.")


def check_memory(
    description: ModelDescription, choice: ContextChoice, place: Place, options: LoadOptions
) -> None:
    """Raises OutOfMemory with the figures, unless the person wants them ignored."""
    if choice.fits or options.ignore_memory:
        return
    needed = choice.estimate
    raise OutOfMemory(
        f"{description.name} does not fit into the {place.name}.",
        f"It needs about {show_bytes(needed.total)} with a context of {choice.ctx:,} tokens: "
        f"{show_bytes(needed.weights)} of weights, {show_bytes(needed.kv)} of KV and "
        f"{show_bytes(needed.compute)} to compute; {show_bytes(place.free_bytes)} are free.",
        "Close other programs, set a smaller ctx, or choose a smaller model.",
    )


def cache_budget(options: LoadOptions, free_bytes: int) -> int:
    """Bytes for parked states. `free_bytes`: of the machine's memory at the begin of the load."""
    if options.cache_bytes is not None:
        return options.cache_bytes
    return min(free_bytes // CACHE_SHARE, CACHE_LIMIT_BYTES)


def engine_config(options: LoadOptions, cache_bytes: int, formatter: ChatFormatter) -> EngineConfig:
    config = EngineConfig(
        step_ms_streaming=options.step_ms_streaming,
        step_ms=options.step_ms,
        cache_bytes=cache_bytes,
        speculate=options.speculate,
    )
    tags = formatter.thinking
    return config if tags is None else replace(config, think_tags=(tags.open, tags.close))


def fingerprint(description: ModelDescription, facts: BackendFacts) -> str:
    """Everything that a kept state depends on."""
    parts = (
        description.fingerprint,
        description.tokenizer,
        description.template_hash,
        facts.numerics,
        facts.kv_type,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def context_notices(
    description: ModelDescription, choice: ContextChoice, options: LoadOptions
) -> tuple[str, ...]:
    """A context that differs from the trained one without having been asked for, or exceeds it."""
    trained, _ = trained_context(description)
    unusual = choice.ctx > trained if options.ctx else choice.ctx < trained
    notices: list[str] = []
    if unusual or description.ctx_train != trained:
        notices.append(f"Context {choice.ctx:,} tokens: {choice.reason}.")
    if description.context_before_conversion:
        notices.append(
            f"The model was trained on {description.context_before_conversion:,} tokens; converted "
            f"it has {trained:,}: beyond its sliding window llama.cpp would compute something else."
        )
    return tuple(notices)


def warm_up(formatter: ChatFormatter) -> None:
    """Starts the template's process while the weights are read: the first answer need not wait."""
    try:
        formatter.prompt([Turn("user", "Hello")])
    except LocalchatError:
        pass  # the first question is told what is wrong
