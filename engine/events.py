"""What the engine tells. The same values travel over the pipe to the front end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length", "cancelled", "context", "error"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens; prompt_tokens = reused + restored + computed."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Found in a live kept sequence."""
    restored_tokens: int = 0
    """Came back from a parked or saved state, the kept part only."""
    computed_tokens: int = 0
    completion_tokens: int = 0
    """Equals len(token_ids)."""


@dataclass(frozen=True, slots=True)
class Timings:
    load_ms: float = 0.0
    """0 when the model was already loaded."""
    restore_ms: float = 0.0
    prefill_ms: float = 0.0
    first_token_ms: float = 0.0
    """From submit to the first sampled token."""
    decode_ms: float = 0.0
    """From the first to the last sampled token."""
    decode_tokens_per_s: float = 0.0
    """(n - 1) / decode time; 0 for fewer than two tokens."""


@dataclass(frozen=True, slots=True)
class ReuseBreak:
    """Where the best kept sequence stopped matching although it went on."""

    position: int
    kept_id: int
    new_id: int
    part: str
    """Name of the prompt's part the position lies in."""


@dataclass(frozen=True, slots=True)
class Result:
    text: str
    reasoning: str
    token_ids: tuple[int, ...]
    """The sampled ids, the end token included when one was sampled."""
    finish_reason: FinishReason
    seed: int
    kv_type: str
    usage: Usage = Usage()
    timings: Timings = Timings()
    reuse_break: ReuseBreak | None = None
    reasoning_unfinished: bool = False
    """The thinking block never closed."""
    notices: tuple[str, ...] = ()
    """Things done differently from what was asked (system prompt folded, turns dropped, ...)."""
    stop_string: str | None = None
    prompt_ids: tuple[int, ...] = field(default=(), repr=False)
    """The prompt as it was evaluated."""
    margin: float | None = None
    """Of a weighing: the logit of yes less that of no."""


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error as a value: it crosses processes and threads."""

    code: str
    """Name of the exit status, see `LocalchatError.code`."""
    title: str
    text: str = ""
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    request_id: str
    prompt_tokens: int
    reused_tokens: int
    restored_tokens: int


@dataclass(frozen=True, slots=True)
class PromptProgress:
    request_id: str
    done: int
    """Prompt tokens in the KV cache now, reused ones included."""
    total: int
    tokens_per_s: float
    """Measured in this prompt; 0 while unknown."""


@dataclass(frozen=True, slots=True)
class Delta:
    request_id: str
    ids: tuple[int, ...]
    text: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class Finished:
    request_id: str
    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    request_id: str | None
    """None: the whole engine failed."""
    cause: ErrorInfo
    result: Result | None = None
    """What had been computed before the failure, if anything."""


Event = Started | PromptProgress | Delta | Finished | Failed
