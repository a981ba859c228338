"""Which readings of a whole base the engine has kept, by name: they go when the base goes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

NAME = "readings"


def note_reading(folder: Path, name: str) -> None:
    """Adds a name, once. A base that was removed meanwhile stays removed."""
    if folder.is_dir() and name not in noted_readings(folder):
        with suppress(OSError), (folder / NAME).open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")


def noted_readings(folder: Path) -> tuple[str, ...]:
    try:
        return tuple((folder / NAME).read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        return ()
