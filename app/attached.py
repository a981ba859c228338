"""A whole text file as part of a question, labelled with its name."""

from __future__ import annotations

import os
from pathlib import Path

from app.errors import file_error
from app.sanitize import single_line
from engine.errors import UsageError

MOST_BYTES = 20_000_000
"""More text than any context window holds; a larger file is a mistake."""


def labelled_file(name: str) -> str:
    """`File "name":` and the text; UsageError for what is no readable text file."""
    path = Path(name)
    shown = single_line(os.fspath(path))
    try:
        if path.is_dir():
            raise UsageError(f"{shown} is a folder.", "", "Name a text file.")
        if not path.exists():
            raise UsageError(f"There is no file {shown}.", "", "Check the path.")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise UsageError(
                f"{shown} is too large.",
                f"It has {size:,} bytes; at most {MOST_BYTES:,} can be attached.",
                "Attach a part of it.",
            )
        data = path.read_bytes()
    except OSError as error:
        raise file_error(error, path) from error
    if b"\0" in data[:65536]:
        raise UsageError(f"{shown} is no text file.", "", "Attach plain text.")
    text = data.decode("utf-8-sig", "replace").rstrip("\n")
    return f'File "{single_line(path.name)}":\n{text}'
