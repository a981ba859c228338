"""What is asked of the engine. Frozen: everything that changes while a request runs lives in
`Sequence`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Priority(IntEnum):
    """Smaller runs first."""

    INTERACTIVE = 0
    VARIANT = 1
    BACKGROUND = 2


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampler chain, in its order; a value that says "off" switches a step off.

    temperature 0 is greedy: the most likely token after penalties and bias.
    """

    logit_bias: tuple[tuple[int, float], ...] = ()
    repeat_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens in the last `repeat_last_n`; 1 is
    off.
    """
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repeat_last_n: int = 64
    """Tokens looked back on by the penalties, prompt included; 0 is off, -1 is all."""
    top_k: int = 40
    """0 is off."""
    typical_p: float = 1.0
    top_p: float = 0.95
    min_p: float = 0.05
    temperature: float = 0.7
    seed: int = 0
    """Token n of a request uses random number n of the generator of this seed."""


@dataclass(frozen=True, slots=True)
class Limits:
    max_tokens: int | None = None
    """None: up to the end of the context."""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A named stretch of a prompt, e.g. `system prompt` or `message 3 (user)`; starts at token
    `start`.
    """

    start: int
    name: str


@dataclass(frozen=True, slots=True)
class Request:
    """One run of the engine: prompt ids in, sampled ids out."""

    request_id: str
    ids: tuple[int, ...]
    """The whole prompt, control tokens included."""
    sampling: Sampling = Sampling()
    limits: Limits = Limits()
    priority: Priority = Priority.INTERACTIVE
    owner: str = "person"
    """Kept sequences are only reused within one owner."""
    conversation: str = ""
    """Unit of eviction and of `drop`; empty for side jobs that keep nothing."""
    parts: tuple[Part, ...] = ()
    """For the words about a broken reuse; ascending by start."""
    repeatable: bool = False
    """Whether the same request must give the same answer: somebody chose the seed."""
    thinking: bool = False
    """The prompt ends inside an open thinking block."""
    keep: bool = True
    """Whether the finished sequence is kept for reuse."""
    pinned: bool = False
    """Other conversations begin with this prompt: what is kept of it goes last."""
    weighs: tuple[int, int] | None = None
    """Two tokens: the result tells by how much the first is likelier than the second right after
    the prompt.
    """
    replaces: bool = False
    """Canonical history: prefill only, sample nothing, and take the place of the conversation's
    kept sequence
    with the longest common prefix once it is completely written. The prefix up to `exact_prefix`
    may be reused."""
    exact_prefix: int = 0
    """With `replaces`: tokens from the start that were prefilled and need not be computed again."""
