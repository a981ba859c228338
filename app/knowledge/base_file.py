"""The small file beside an index that says which folders belong to the base. It outlives the index,
which can be made again from it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from app.errors import file_error
from app.knowledge.errors import BadBaseName, BadRoot, KnowledgeError, NoSuchBase, typed
from app.knowledge.index_file import locks_of
from app.paths import write_atomically
from app.sanitize import SELECTORS, clean, single_line
from app.store.locks import folder_lock

NAME = "base.json"
NAME_BYTES = 64
ALLOWED = frozenset(" -_")
NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
"""Errors of a path that leads to nothing."""
MARKS = frozenset({"Mn", "Mc"})
"""Unicode's categories of what stands on a letter; many scripts write no word without."""


def read_roots(folder: Path) -> tuple[Path, ...]:
    """Raises KnowledgeError where the file cannot be read, NoSuchBase where it is gone."""
    path = folder / NAME
    try:
        roots = json.loads(path.read_bytes())["roots"]
        return tuple(Path(os.path.abspath(root)) for root in roots)
    except FileNotFoundError as error:
        raise NoSuchBase(
            f"There is no knowledge base “{folder.name}” any more.", "", "Choose another one."
        ) from error
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
    """BadRoot where it is no folder and no file, or a part of a root already. Roots inside it
    become a part of it.
    """
    root = check_root(root)
    with folder_lock(locks_of(folder)):
        roots = read_roots(folder)
        if root in roots:
            return
        holder = next((each for each in roots if lies_in(root, each)), None)
        if holder is not None:
            raise BadRoot(
                f"{single_line(str(root))} is a part of the knowledge base already.",
                f"It lies in {single_line(str(holder))}.",
                f"Bring it up to date: `localchat kb sync {typed(folder.name)}`.",
            )
        write_roots(folder, [*(each for each in roots if not lies_in(each, root)), root])


def lies_in(root: Path, other: Path) -> bool:
    """Whether it is the other or a part of it, by whatever links they are named."""
    return Path(os.path.realpath(root)).is_relative_to(os.path.realpath(other))


def drop_root(folder: Path, root: Path) -> None:
    """BadRoot where it is no root."""
    root = Path(os.path.abspath(root))
    with folder_lock(locks_of(folder)):
        roots = read_roots(folder)
        if root not in roots:
            there = ", ".join(single_line(str(each)) for each in roots) or "none"
            raise BadRoot(
                f"{single_line(str(root))} is no folder of {folder.name}.",
                f"Its folders: {there}.",
                "Name one of them.",
            )
        write_roots(folder, [each for each in roots if each != root])


def check_root(root: Path) -> Path:
    """Its absolute path. Raises BadRoot where it is no folder and no file, StorageError where it
    cannot be looked into.
    """
    path = Path(os.path.abspath(root))
    name = single_line(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            os.scandir(path).close()
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in NOWHERE:
            raise file_error(error, path) from error
        raise BadRoot(
            f"There is no folder {name}.", "Nothing was added.", "Check the path."
        ) from error
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise BadRoot(
            f"{name} is neither a folder nor a file.", "Nothing was added.", "Check the path."
        )
    return path


def checked_name(name: str) -> str:
    """A base's name, composed (NFC): letters with their marks, digits, `_`, and `-` and blanks
    inside: never a path, and never an option of a command.
    """
    name = unicodedata.normalize("NFC", name)
    is_plain = all(map(is_allowed, name)) and name == clean(name)
    is_bounded = name[:1].isalnum() or name[:1] == "_"
    if not is_plain or not is_bounded or name != name.strip() or len(name.encode()) > NAME_BYTES:
        raise BadBaseName(
            f"A knowledge base cannot be called “{single_line(name, 80)}”.",
            "Names begin with a letter, a digit or _; blanks and - may follow. They have up to"
            f" {NAME_BYTES} bytes.",
            "Choose another name.",
        )
    return name


def is_allowed(letter: str) -> bool:
    """Whether a base's name may hold it."""
    is_mark = unicodedata.category(letter) in MARKS and not SELECTORS.match(letter)
    return letter.isalnum() or letter in ALLOWED or is_mark


def name_of(folder: Path) -> str | None:
    """Of the base that lies in this folder; None: none can."""
    try:
        return checked_name(folder.name)
    except BadBaseName:
        return None


def name_for(folder: Path) -> str:
    """The folder's own name, as far as a base can have it; `documents` where that is nothing."""
    composed = unicodedata.normalize("NFC", clean(os.fspath(folder.stem)))
    kept = "".join(letter if is_allowed(letter) else " " for letter in composed)
    whole = " ".join(kept.split()).lstrip("- ").encode()
    name = whole[:NAME_BYTES].decode(errors="ignore").rstrip()
    return name_of(Path(name)) or "documents"
