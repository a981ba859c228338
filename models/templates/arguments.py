"""The arguments of tool calls, as text or as a mapping: templates want one or the other."""

from __future__ import annotations

import json
from typing import Any


def as_mapping(arguments: Any) -> Any:
    """A mapping where the text is a JSON object; anything else stays as it is."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def as_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False)
