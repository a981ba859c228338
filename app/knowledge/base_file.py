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
from app.knowledge.index_file import locks_of
from app.paths import write_atomically
from app.sanitize import single_line
from app.store.locks import folder_lock

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


def add_root(folder: Path, root: Path) -> None:
    """KnowledgeError where it is no folder and no file, or a part of a root already. Roots inside
    it become a part of it.
    """
    root = check_root(root)
    with folder_lock(locks_of(folder)):
        roots = read_roots(folder)
        holder = next((each for each in roots if root.is_relative_to(each)), None)
        if holder == root:
            return
        if holder is not None:
            raise KnowledgeError(
                f"{single_line(str(root))} is a part of the knowledge base already",
                f"It lies in {single_line(str(holder))}.",
                f"Bring it up to date: `localchat kb sync {folder.name}`.",
            )
        write_roots(folder, [*(each for each in roots if not each.is_relative_to(root)), root])


def drop_root(folder: Path, root: Path) -> None:
    """KnowledgeError where it is no root."""
    root = Path(os.path.abspath(root))
    with folder_lock(locks_of(folder)):
        roots = read_roots(folder)
        if root not in roots:
            there = ", ".join(single_line(str(each)) for each in roots) or "none"
            raise KnowledgeError(
                f"{single_line(str(root))} is no folder of {folder.name}",
                f"Its folders: {there}.",
                "Name one of them.",
            )
        write_roots(folder, [each for each in roots if each != root])


def check_root(root: Path) -> Path:
    """Its absolute path. Raises KnowledgeError where it is no folder and no file."""
    path = Path(os.path.abspath(root))
    if not (path.is_dir() or path.is_file()):
        name = single_line(str(path))
        raise KnowledgeError(f"{name} is no folder", "Nothing was added.", "Check the path.")
    return path


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
