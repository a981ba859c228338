"""The fixed JSON objects of the command line: one answer, one error.

It knows the field names that scripts rely on, and nothing of files, screens or processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from app.errors import in_one_line
from app.knowledge.sources import Citation
from engine.events import ErrorInfo, Result, Timings
from engine.messages import Loaded

# Milliseconds to a thousandth: below that is the clock's noise.
_DECIMALS = 3


def result_object(
    result: Result,
    loaded: Loaded,
    *,
    chat_id: int,
    user_message_id: int,
    message_id: int,
    citations: Sequence[Citation] = (),
) -> dict[str, Any]:
    """One answer as `ask --json` prints it; `token_ids` include a sampled end token."""
    return {
        "text": result.text,
        "reasoning": result.reasoning,
        "token_ids": list(result.token_ids),
        "finish_reason": result.finish_reason,
        "model": loaded.name,
        "backend": loaded.backend,
        "kv_type": result.kv_type,
        "seed": result.seed,
        "usage": asdict(result.usage),
        "reuse_break": asdict(result.reuse_break) if result.reuse_break else None,
        "timings": _timings(result.timings),
        "chat_id": chat_id,
        "user_message_id": user_message_id,
        "message_id": message_id,
        "citations": [asdict(citation) for citation in citations],
    }


def error_object(cause: ErrorInfo) -> dict[str, Any]:
    """A failure as a script reads it; `code` is the name of the exit status."""
    message = in_one_line(replace(cause, next_step=""))
    return {"error": {"code": cause.code, "message": message, "next": cause.next_step}}


def _timings(timings: Timings) -> dict[str, float]:
    return {name: round(float(value), _DECIMALS) for name, value in asdict(timings).items()}
