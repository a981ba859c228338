"""Template and messages in, text out: pure Jinja2, with a limit on the length of the text.

Runs in the child process. Knows nothing of tokens or marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Template

from models.templates.environment import make_environment

MAX_TEXT = 16_000_000
"""Characters of one rendered prompt; a million tokens have about four million."""


class TooLong(Exception):
    """The template writes more than `MAX_TEXT` characters."""


def compile_template(template: str, date: str) -> Template:
    """Raises jinja2.TemplateSyntaxError."""
    return make_environment(date).from_string(template)


def render(
    template: Template, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]
) -> str:
    """The prompt text. Raises what the template raises, or TooLong."""
    pieces: list[str] = []
    length = 0
    for piece in template.generate(messages=list(messages), **variables):
        length += len(piece)
        if length > MAX_TEXT:
            raise TooLong
        pieces.append(piece)
    return "".join(pieces)
