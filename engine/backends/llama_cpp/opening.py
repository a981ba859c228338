"""Which context a model gets: the asked settings, or the nearest ones that the model accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.backends.llama_cpp.context import ContextRefused
from engine.backends.llama_cpp.kv_types import KVChoice, choose_kv, plain, without_flash
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.self_test import require_q4
from engine.backends.llama_cpp.settings import FLASH_FROM_CONTEXT, ContextSettings
from engine.errors import OutOfMemory

T = TypeVar("T")


def choose(model: LoadedModel, settings: ContextSettings) -> KVChoice:
    """Raises UsageError: the kv_type is unknown, not possible, or failed its self-test."""
    default_flash = settings.context >= FLASH_FROM_CONTEXT
    choice = choose_kv(settings.kv_type, settings.flash, default_flash, model.head_sizes)
    if choice.kv.needs_self_test:
        require_q4(model)
    return choice


def first_accepted(choice: KVChoice, make: Callable[[KVChoice], T]) -> tuple[T, KVChoice]:
    """`make` with the first choice that it does not refuse (ContextRefused); or OutOfMemory."""
    for attempt in _attempts(choice):
        try:
            return make(attempt), attempt
        except ContextRefused:
            continue
    raise no_room()


def no_room() -> OutOfMemory:
    return OutOfMemory(
        "llama.cpp could not make room for the conversation.",
        "It refused the KV cache in every format that the model can use.",
        "Use a smaller context (`-o ctx=2048`) or close other programs.",
    )


def _attempts(choice: KVChoice) -> list[KVChoice]:
    attempts = [choice]
    if choice.flash:
        attempts.append(without_flash(choice))
    if choice.kv.quantized:
        attempts.append(plain(choice))
    return attempts
