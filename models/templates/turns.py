"""A conversation as templates see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Turn:
    role: str
    """system, user, assistant or tool."""
    content: str | None
    reasoning: str = ""
    name: str = ""
    """Of a tool, for its results."""
    tool_calls: tuple[dict[str, Any], ...] = ()
    """In the form of OpenAI's messages; the arguments as text or as a mapping."""
    tool_call_id: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.content or "").strip() and not self.tool_calls
