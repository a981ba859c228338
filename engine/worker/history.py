"""Which answers wait for their canonical history, and how much of a conversation is computed
exactly.

Pure bookkeeping of the owner thread; it knows numbers of tokens and names, no engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from engine.events import Result
from engine.request import Request


@dataclass(slots=True)
class Histories:
    waiting: dict[str, str] = field(default_factory=dict)
    """Conversation -> the request whose answer is to be rewritten."""
    decoded_from: dict[str, int] = field(default_factory=dict)
    """Conversation -> first token of what is kept of it that was not computed as a prompt."""

    def answered(self, conversation: str, request_id: str, result: Result) -> None:
        self.waiting[conversation] = request_id
        found = result.usage.reused_tokens + result.usage.restored_tokens
        before = self.decoded_from.get(conversation, found)
        exact = before if found > before else len(result.prompt_ids)
        self.decoded_from[conversation] = exact

    def takes(self, conversation: str, request_id: str, request: Request) -> Request | None:
        """The rewriting request with what it may reuse; None when nobody waits for it any more."""
        if self.waiting.get(conversation) != request_id:
            return None
        del self.waiting[conversation]
        exact = min(request.exact_prefix, self.decoded_from.get(conversation, 0))
        return replace(request, exact_prefix=exact)

    def rewritten(self, conversation: str) -> None:
        self.decoded_from.pop(conversation, None)

    def asked(self, conversation: str) -> None:
        """A new turn: what waits for the old one is out of date."""
        self.waiting.pop(conversation, None)

    def dropped(self, conversation: str) -> None:
        self.waiting.pop(conversation, None)
        self.decoded_from.pop(conversation, None)
