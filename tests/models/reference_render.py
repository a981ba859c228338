"""The reference for prompts: Jinja2 as Hugging Face uses it, and llama.cpp parsing the whole text.

Shares no code with the product. Safe only for texts that spell no control token.
"""

from __future__ import annotations

import ctypes
import json
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def reference_text(template: str, messages: list[dict[str, Any]], date: str, **more: Any) -> str:
    def refuse(message: str) -> NoReturn:
        raise jinja2.exceptions.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = datetime.fromisoformat(date).strftime
    return environment.from_string(template).render(messages=messages, **more)


def reference_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Ids of the whole text, control tokens parsed, by the native function."""
    from llama_cpp import llama_cpp

    data = text.encode()
    ids = (ctypes.c_int32 * (len(data) + 8))()
    count = llama_cpp.llama_tokenize(tokenizer._vocab, data, len(data), ids, len(ids), False, True)
    assert count >= 0
    return tuple(ids[:count])
