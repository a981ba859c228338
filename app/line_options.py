"""The `options` object of a JSON line as `key=value` pairs: both forms are checked alike."""

from __future__ import annotations

import json
from typing import Any

from engine.errors import UsageError


def option_pairs(options: Any) -> list[str]:
    """`{"temperature": 0, "stop": ["a", "b"]}` as `temperature=0`, `stop=a`, `stop=b`."""
    if not isinstance(options, dict):
        raise UsageError("`options` must be an object.", "", 'For example: {"temperature": 0}')
    return [pair for key, value in options.items() for pair in _pairs(key, value)]


def _pairs(key: str, value: Any) -> list[str]:
    if isinstance(value, list):
        return [pair for item in value for pair in _pairs(key, item)]
    if isinstance(value, dict):
        raise UsageError(f"The option `{key}` must be a number, a text or a list.")
    return [f"{key}={_text(value)}"]


def _text(value: str | int | float | bool | None) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "on" if value else "off"
    return json.dumps(value)
