"""One file as a document: the reader that its name asks for, and every failure as a final state."""

from __future__ import annotations

import errno
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

from app.knowledge.document import Document, Unreadable
from app.knowledge.reading.kinds import Kind, kind_of
from app.knowledge.reading.limits import Limits
from app.knowledge.reading.source import Progress, Refused, Source, no_progress, opened

READERS: dict[Kind, str] = {
    "markdown": "markdown.read_markdown",
    "text": "plain.read_plain",
    "markup": "markup.read_markup",
    "code": "code.read_code",
    "csv": "csv_table.read_csv",
    "json": "json_text.read_json",
    "html": "html.read_html",
    "pdf": "pdf.read_pdf",
    "docx": "docx.read_docx",
    "epub": "epub.read_epub",
    "notebook": "notebook.read_notebook",
}
"""Module and function; a module is loaded when the first file of its kind is read."""

REASONS = {
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ENOENT: "the file is gone",
    errno.ENOTDIR: "the file is gone",
    errno.ELOOP: "not a regular file",
    errno.ENXIO: "not a regular file",
    errno.EINVAL: "damaged",  # an archive that points in front of itself
    errno.EIO: "the disk reports an error",
    errno.ENAMETOOLONG: "the path is too long",
}


def read(
    path: Path,
    *,
    root: Path | None = None,
    limits: Limits | None = None,
    progress: Progress = no_progress,
) -> Document | Unreadable:
    """What the file holds, or why it has no document. Opens nothing else, and raises nothing of
    the file's making but MemoryError.

    `root`: the folder that the file must lie in after all links are resolved.
    """
    try:
        with opened(path, root, limits or Limits(), progress) as source:
            if source.size == 0:
                return Unreadable("skipped: empty")
            return _reader(kind_of(source.suffix))(source)
    except Refused as refused:
        return Unreadable(str(refused))
    except OSError as error:
        reason = REASONS.get(error.errno or 0, "it cannot be read")
        return Unreadable(f"skipped: {reason}", is_lasting=error.errno == errno.EINVAL)
    except MemoryError:
        raise
    except Exception:  # a reader's library can raise anything over a damaged file
        return Unreadable("skipped: damaged")


def _reader(kind: Kind) -> Callable[[Source], Document]:
    module, function = READERS[kind].split(".")
    found = getattr(importlib.import_module(f"app.knowledge.reading.formats.{module}"), function)
    return cast("Callable[[Source], Document]", found)
