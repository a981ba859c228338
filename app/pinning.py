"""A small collection is read once: its name in the engine's cache, and an honest account of it.

It computes names and numbers, and asks nobody.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from app.knowledge.prompt import prefix
from app.knowledge.sources import Sources
from app.store.conversation import Chat
from engine.events import Result, Usage
from engine.messages import ChatMessage, Loaded, Submit


def pinned_name(owner: str, chat: Chat, sources: Sources, loaded: Loaded) -> str:
    """The same for the same model, template, beginning and documents, whatever the chat."""
    parts = (
        loaded.model_fingerprint,
        loaded.template_hash,
        loaded.kv_type,
        chat.system or "",
        chat.date,
        sources.collection,
        sources.mark,
    )
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16)
    return f"{owner}-pinned-{digest.hexdigest()}"


def pinning(submit: Submit, sources: Sources, name: str) -> Submit:
    """Reads what stands before the question, and answers nothing."""
    *before, question = submit.messages
    beginning = ChatMessage(question.role, prefix(sources))
    return replace(
        submit,
        request_id=f"{submit.request_id}-pin",
        conversation=name,
        messages=(*before, beginning),
        kind="pin",
    )


def with_reading(result: Result, pin: Result, pin_s: float) -> Result:
    """The answer with the reading of its documents, which came before it and for it."""
    usage, read = result.usage, pin.usage
    found = usage.reused_tokens + usage.restored_tokens
    computed = min(read.computed_tokens, found)
    restored = min(read.restored_tokens, found - computed)
    timings = result.timings
    first_token_ms = timings.first_token_ms + 1e3 * pin_s if timings.first_token_ms else 0.0
    return replace(
        result,
        usage=Usage(
            prompt_tokens=usage.prompt_tokens,
            reused_tokens=found - computed - restored,
            restored_tokens=restored,
            computed_tokens=usage.computed_tokens + computed,
            completion_tokens=usage.completion_tokens,
        ),
        timings=replace(
            timings,
            restore_ms=timings.restore_ms + pin.timings.restore_ms,
            prefill_ms=timings.prefill_ms + pin.timings.prefill_ms,
            first_token_ms=first_token_ms,
        ),
    )
