"""The help page, made from the tables of keys and commands."""

from __future__ import annotations

from collections.abc import Mapping

from app.keys import Group, of_group, shown
from app.screens.page import Line, LinesPage
from app.slash import SLASHES

TITLES: tuple[tuple[Group, str], ...] = (
    ("prompt", "Writing"),
    ("chat", "Chat"),
    ("turn", "On a selected turn (alt+↑ selects)"),
    ("bases", "In the list of knowledge bases"),
    ("anywhere", "Anywhere"),
)

WORDS = (
    ("", " "),
    ("Facts under an answer", ""),
    ("reused", "prompt tokens that were computed in an earlier turn"),
    ("read", "prompt tokens that were computed now"),
    ("0.14 s", "time to the first word"),
    ("61 tok/s", "speed of writing"),
)


def help_lines(overrides: Mapping[str, str]) -> list[Line]:
    lines: list[Line] = []
    for group, title in TITLES:
        lines.append((title, ""))
        lines += [(shown(key.keys, overrides.get(key.id)), key.help) for key in of_group(group)]
        lines.append(("", " "))
    lines.append(("Commands in the prompt", ""))
    lines += [(f"/{slash.name} {slash.argument}".strip(), slash.help) for slash in SLASHES]
    return [*lines, *WORDS]


def help_page(overrides: Mapping[str, str]) -> LinesPage:
    return LinesPage("help", help_lines(overrides))
