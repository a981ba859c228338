"""One running request: the only thing that changes while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.cache.residency import State
from engine.drafts import Drafter
from engine.events import ReuseBreak
from engine.output.answer import AnswerText
from engine.output.recent import RecentTokens
from engine.request import Request


@dataclass(slots=True)
class Clocks:
    """Seconds on the engine's clock, or durations in seconds."""

    submitted: float = 0.0
    restore_s: float = 0.0
    prefill_s: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0


@dataclass(slots=True, eq=False)
class Sequence:
    request: Request
    order: int
    """Smaller was submitted earlier."""
    answer: AnswerText
    recent: RecentTokens | None
    """None: no penalties."""
    ids: list[int]
    """Prompt and sampled tokens."""
    clocks: Clocks
    drafter: Drafter | None = None
    """None: nothing is drafted for it."""
    state: State = field(default_factory=State)
    admitted: bool = False
    reused_tokens: int = 0
    restored_tokens: int = 0
    prompt_reached: int = 0
    """Prompt tokens that were in the KV at the furthest point."""
    reuse_break: ReuseBreak | None = None
    cancelled: bool = False
    margin: float | None = None
    """What `Request.weighs` asks for."""

    @property
    def prompt_length(self) -> int:
        return len(self.request.ids)

    @property
    def pending(self) -> int:
        """Tokens that are not forwarded yet."""
        return len(self.ids) - self.state.length

    @property
    def sampled(self) -> int:
        return len(self.ids) - len(self.request.ids)

    @property
    def decoding(self) -> bool:
        """Only the token sampled last is to be forwarded."""
        return self.pending == 1 and len(self.ids) > len(self.request.ids)

    @property
    def samples(self) -> bool:
        """Whether anything is sampled after the prompt."""
        return not self.request.replaces and self.request.limits.max_tokens != 0

    @property
    def found_tokens(self) -> int:
        """Prompt tokens that did not have to be computed."""
        return self.reused_tokens + self.restored_tokens
