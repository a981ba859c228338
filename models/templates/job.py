"""What is to be rendered, and how its texts are marked before a template sees them.

Knows nothing of the child process, of ids, or of what becomes of the marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from models.templates.arguments import as_mapping, as_text
from models.templates.marks import ControlTexts, enclose, escape, map_texts
from models.templates.turns import Turn

Field = Literal["content", "reasoning", "other"]
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RenderJob:
    turns: tuple[Turn, ...]
    controls: ControlTexts
    """Spellings that no message may contribute."""
    date: str = ""
    """ISO date for templates that ask for today."""
    add_generation_prompt: bool = True
    continue_last: bool = False
    """The text ends with the last turn's content, so that the answer goes on."""
    parse_arguments: bool = True
    """Offer the arguments of tool calls as mappings instead of as text."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Further template variables, e.g. enable_thinking."""


@dataclass(frozen=True, slots=True)
class Slot:
    message: int
    field: Field
    text: str
    """As it stands in the result, without surrounding white space."""


@dataclass(frozen=True, slots=True)
class Prepared:
    plain: list[dict[str, Any]]
    """Messages with escapes and breaks only."""
    marked: list[dict[str, Any]]
    """The same, each text enclosed in marks."""
    slots: tuple[Slot, ...]


def prepare(job: RenderJob) -> Prepared:
    plain, marked, slots = [], [], list[Slot]()
    safe = partial(_safe, job.controls)
    for index, turn in enumerate(job.turns):
        message = _message(turn, job.parse_arguments)
        plain.append(_change(message, lambda _, text: safe(text), safe))
        marked.append(_change(message, _marker(index, slots, safe), safe))
    return Prepared(plain, marked, tuple(slots))


def _message(turn: Turn, parse_arguments: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.content or ""}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.name:
        message["name"] = turn.name
    if turn.tool_call_id:
        message["tool_call_id"] = turn.tool_call_id
    if turn.tool_calls:
        message["tool_calls"] = [_call(call, parse_arguments) for call in turn.tool_calls]
    return message


def _call(call: dict[str, Any], parse_arguments: bool) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    form = as_mapping if parse_arguments else as_text
    function["arguments"] = form(function.get("arguments"))
    return {**call, "function": function}


def _change(
    message: dict[str, Any],
    change: Callable[[str, str], str],
    change_key: Callable[[str], str],
) -> dict[str, Any]:
    """Every text of a message but its role; `change` gets the field's name and the text."""
    return {
        key: value if key == "role" else map_texts(value, partial(change, key), change_key)
        for key, value in message.items()
    }


def _safe(controls: ControlTexts, text: str) -> str:
    return controls.broken(escape(_SURROGATES.sub("\ufffd", text)))


def _marker(index: int, slots: list[Slot], safe: Callable[[str], str]) -> Callable[[str, str], str]:
    fields: dict[str, Field] = {"content": "content", "reasoning_content": "reasoning"}

    def mark(key: str, text: str) -> str:
        shown = _SURROGATES.sub("\ufffd", text).strip()
        slots.append(Slot(index, fields.get(key, "other"), shown))
        return enclose(safe(text), len(slots) - 1)

    return mark
