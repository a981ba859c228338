"""The tags that models put around their reasoning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThinkingTags:
    open: str
    close: str


KNOWN_TAGS = (
    ThinkingTags("<think>", "</think>"),
    ThinkingTags("[THINK]", "[/THINK]"),
    ThinkingTags("<|START_THINKING|>", "<|END_THINKING|>"),
    ThinkingTags("<seed:think>", "</seed:think>"),
    ThinkingTags("<thinking>", "</thinking>"),
    ThinkingTags("<reasoning>", "</reasoning>"),
)


def thinking_tags(template: str) -> ThinkingTags | None:
    """The tags that a chat template speaks of; None when it knows no reasoning."""
    for tags in KNOWN_TAGS:
        if tags.open in template or tags.close in template:
            return tags
    return None


def left_open(text: str) -> ThinkingTags | None:
    """The tags of a reasoning block that begins in this text and does not end in it."""
    for tags in KNOWN_TAGS:
        if text.rfind(tags.open) > text.rfind(tags.close):
            return tags
    return None
