"""The environment of processes that work on documents: nothing in it names our folders."""

from __future__ import annotations

from collections.abc import Mapping

KEPT = (
    *("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "LANG", "LC_ALL", "LD_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"),
)
"""What Python may need to start."""


def child_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    return {name: inherited[name] for name in KEPT if name in inherited}
