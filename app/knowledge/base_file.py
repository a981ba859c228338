"""The small file beside an index that says which folders belong to the base. It outlives the index,
which can be made again from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from app.errors import file_error
from app.knowledge.errors import BadBaseName, KnowledgeError
from app.paths import write_atomically
from app.sanitize import single_line

NAME = "base.json"
NAME_BYTES = 64
ALLOWED = frozenset(" -_")


def read_roots(folder: Path) -> tuple[Path, ...]:
    """Raises KnowledgeError where the file cannot be read."""
    path = folder / NAME
    try:
        roots = json.loads(path.read_bytes())["roots"]
        return tuple(Path(os.path.abspath(root)) for root in roots)
    except OSError as error:
        raise file_error(error, path) from error
    except (ValueError, LookupError, TypeError) as error:
        raise KnowledgeError(
            f"The folders of {single_line(folder.name)} cannot be read",
            f"{single_line(str(path))}: {single_line(str(error))}",
            "Remove the knowledge base and create it again; your documents are untouched.",
        ) from error


def write_roots(folder: Path, roots: Sequence[Path]) -> None:
    # Bytes of a path that are no text are lone surrogates in it, which JSON writes as `\udcff`.
    text = json.dumps({"roots": [os.fspath(root) for root in roots]}, indent=1)
    write_atomically(folder / NAME, text.encode())


def checked_name(name: str) -> str:
    """A base's name: letters, digits, `-`, `_` and blanks inside: never a path."""
    is_plain = all(letter.isalnum() or letter in ALLOWED for letter in name)
    if not name or not is_plain or name != name.strip() or len(name.encode()) > NAME_BYTES:
        raise BadBaseName(
            f"A knowledge base cannot be called “{single_line(name, 80)}”.",
            f"Names have letters, digits, blanks, - and _, and up to {NAME_BYTES} bytes.",
            "Choose another name.",
        )
    return name
