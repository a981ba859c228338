"""The part of a history that stays the same whatever is said next.

A template may write an answer differently once another turn follows it: thinking goes, an end is
added. Knows no template; it compares two prompts that differ in their last message only.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from models.templates.prompt import PromptIds

_PROBES = ("a", "0")
"""Two next messages that begin with different tokens in any vocabulary."""


def stable_prefix(
    form: Callable[[str], PromptIds], control_ids: AbstractSet[int]
) -> tuple[int, ...]:
    """Ids that any next message leaves as they are. `form`: next message -> prompt.

    Ends after a control token where the template has one there: behind it the next message's first
    characters may join the template's last ones.
    """
    first, second = (form(probe) for probe in _PROBES)
    end = min(len(first.ids), len(second.ids))
    same = next((i for i in range(end) if first.ids[i] != second.ids[i]), end)
    begins = _last_text(first, same)
    controls = [i for i in range(begins, same) if first.ids[i] in control_ids]
    return first.ids[: controls[-1] + 1] if controls else first.ids[:same]


def _last_text(prompt: PromptIds, before: int) -> int:
    """Where the last message that begins before token `before` begins."""
    starts = [start for start, name in prompt.parts if start < before and name != "template"]
    return starts[-1] if starts else 0
