"""Completes paths in a line of input. It reads names of folders, nothing in them."""

from __future__ import annotations

import asyncio
import os

from textual.suggester import Suggester

from app.sanitize import single_line

MOST = 2_000
"""Entries of a folder that are looked at: a suggestion that comes late is none."""


class PathSuggester(Suggester):
    """The first folder, else the first file, that goes on as typed."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        return await asyncio.to_thread(suggestion, value)


def suggestion(value: str) -> str | None:
    """`~/Doc` -> `~/Documents/`; names that cannot be shown as they are stay out."""
    head, start = os.path.split(value)
    if not head or (not start and not value.endswith("/")):
        return None
    try:
        with os.scandir(os.path.expanduser(head)) as entries:
            found = [
                (not entry.is_dir(), entry.name)
                for entry, _ in zip(entries, range(MOST), strict=False)
                if is_continued(entry.name, start)
            ]
    except (OSError, ValueError):
        return None
    if not found:
        return None
    is_file, name = min(found)
    return value[: len(value) - len(start)] + name + ("" if is_file else "/")


def is_continued(name: str, start: str) -> bool:
    """Hidden names are offered only where a dot was typed."""
    return (
        name.startswith(start)
        and name != start
        and (start != "" or not name.startswith("."))
        and single_line(name) == name
    )
