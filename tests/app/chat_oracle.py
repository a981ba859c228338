"""What each turn of a ChatML chat must compute: its prompt, less what was ever forwarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


@dataclass
class Oracle:
    """The prompt of any branch, and the most that could be reused for it."""

    ids: Callable[[str], list[int]]
    """Tokens of a text that may hold control tokens."""
    least_computed: int = 2
    system: str = DEFAULT_SYSTEM
    parents: dict[int, int | None] = field(default_factory=dict)
    said: dict[int, str | list[int]] = field(default_factory=dict)
    """A question's text, an answer's sampled ids."""
    forwarded: list[list[int]] = field(default_factory=list)

    def prompt(self, question: int) -> list[int]:
        path: list[int] = []
        node: int | None = question
        while node is not None:
            path.insert(0, node)
            node = self.parents[node]
        ids = self.ids(f"<|im_start|>system\n{self.system}<|im_end|>\n")
        end = self.ids("<|im_end|>")
        for message in path:
            said = self.said[message]
            if isinstance(said, str):
                ids += self.ids(f"<|im_start|>user\n{said}<|im_end|>\n")
            else:
                kept = said[:-1] if said[-1:] == end else said
                ids += [*self.ids("<|im_start|>assistant\n"), *kept, *end, *self.ids("\n")]
        return ids + self.ids("<|im_start|>assistant\n")

    def expect(self, answer: dict[str, Any]) -> None:
        """Checks one answer's usage and remembers what it forwarded."""
        prompt = self.prompt(answer["user_message_id"])
        usage = answer["usage"]
        assert usage["prompt_tokens"] == len(prompt)
        best = max((common(prompt, kept) for kept in self.forwarded), default=0)
        found = min(best, len(prompt) - self.least_computed)
        assert usage["reused_tokens"] + usage["restored_tokens"] == found
        assert usage["computed_tokens"] == len(prompt) - found
        assert usage["completion_tokens"] == len(answer["token_ids"])
        self.forwarded.append([*prompt, *answer["token_ids"][:-1]])
        self.parents[answer["message_id"]] = answer["user_message_id"]
        self.said[answer["message_id"]] = answer["token_ids"]

    def ask(self, question: int, parent: int | None, text: str) -> None:
        self.parents[question] = parent
        self.said[question] = text


def common(a: Sequence[int], b: Sequence[int]) -> int:
    length = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        length += 1
    return length
