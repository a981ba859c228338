"""A random name for a data folder, so that chat 1 here is never taken for chat 1 of another folder.

It lies in a file beside the chats and is made once.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from pathlib import Path

from app.errors import file_error
from app.paths import Paths, make_folder

NAME = "identity"
_FORM = re.compile(r"[0-9a-f]{32}")


def folder_identity(paths: Paths) -> str:
    """32 hexadecimal digits; StorageError where the folder cannot be written."""
    path = make_folder(paths.data) / NAME
    try:
        return _read(path) or _create(path)
    except OSError as error:
        raise file_error(error, path) from error


def _read(path: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        text = path.read_text(encoding="ascii").strip()
        return text if _FORM.fullmatch(text) else None
    return None


def _create(path: Path) -> str:
    """Linked into place complete, so that of two processes at once both read the same name."""
    temporary = path.with_name(f".{NAME}.{uuid.uuid4().hex}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(uuid.uuid4().hex)
    try:
        if path.exists():
            temporary.replace(path)
        else:
            _move_if_absent(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path.read_text(encoding="ascii").strip()


def _move_if_absent(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:
        temporary.replace(path)  # A file system without hard links.
