"""What can go wrong with a request, in words; the checks it must pass before it runs."""

from __future__ import annotations

import math

from engine.backends.base import BackendFacts
from engine.events import ErrorInfo
from engine.request import Request, Sampling

NOT_FINITE = ErrorInfo(
    "failed",
    "The model's numbers are not finite.",
    "A score was NaN or infinite, so no further token can be chosen. The answer so far is kept.",
    "Ask again; if it happens again, check the model file or choose another kv_type.",
)


def no_room(tokens: int, context: int) -> ErrorInfo:
    return ErrorInfo(
        "memory",
        "There is no memory for more of this conversation.",
        f"{tokens} tokens are held of a context of {context}; no more could be added.",
        "Close other programs, start a shorter conversation, or set a smaller context.",
    )


def refusal(request: Request, facts: BackendFacts) -> ErrorInfo | None:
    """Why a request cannot run; None if it can."""
    length = len(request.ids)
    if length == 0:
        return _usage("The prompt is empty.", "0 tokens to evaluate.", "Write something first.")
    if length >= facts.context:
        return ErrorInfo(
            "context",
            "The prompt does not fit into the context.",
            f"It has {length} tokens; the context holds {facts.context}, the answer included.",
            "Shorten it, start a new chat, or set a larger context.",
        )
    unknown = next((i for i in request.ids if not 0 <= i < facts.vocab_size), None)
    if unknown is not None:
        return _usage(
            "The prompt has a token that this model does not know.",
            f"Token {unknown}; the vocabulary has {facts.vocab_size}.",
            "Send the text again, so that it is tokenised anew.",
        )
    return _sampling_refusal(request.sampling, facts) or _limits_refusal(request)


def _limits_refusal(request: Request) -> ErrorInfo | None:
    max_tokens = request.limits.max_tokens
    if max_tokens is None or max_tokens >= 0:
        return None
    return _usage("max_tokens is not allowed.", f"It is {max_tokens}.", "Use 0 or more.")


def _sampling_refusal(sampling: Sampling, facts: BackendFacts) -> ErrorInfo | None:
    for name, least in _LEAST.items():
        value = getattr(sampling, name)
        if not (math.isfinite(value) and value >= least):
            return _usage(f"{name} is not allowed.", f"It is {value}.", f"Use {least} or more.")
    if sampling.repeat_penalty == 0:
        return _usage("repeat_penalty is not allowed.", "It is 0.", "Use more than 0; 1 is off.")
    for token_id, bias in sampling.logit_bias:
        if not 0 <= token_id < facts.vocab_size or math.isnan(bias) or bias == math.inf:
            return _usage(
                "logit_bias is not allowed.",
                f"It has {bias} for token {token_id}; the vocabulary has {facts.vocab_size}.",
                "Name tokens of this model, with finite values (-inf bans a token).",
            )
    return None


_LEAST = {
    "temperature": 0,
    "top_k": 0,
    "top_p": 0,
    "min_p": 0,
    "typical_p": 0,
    "repeat_penalty": 0,
    "repeat_last_n": -1,
    "frequency_penalty": -1000,
    "presence_penalty": -1000,
}


def _usage(title: str, text: str, next_step: str) -> ErrorInfo:
    return ErrorInfo("usage", title, text, next_step)
