"""Writes all that an index holds as JSON lines: one chunk a line, by document and position."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from app.errors import file_error
from app.knowledge.index import Index
from app.knowledge.stored import StoredChunk


def export(index: Index, path: Path) -> None:
    """Replaces a file when all is written; a pipe or a device is written to. StorageError where
    that fails, BrokenPipeError where the pipe's reader is gone.
    """
    try:
        if path.exists() and not path.is_file():
            # As it is named: what /dev/stdout leads to may have no name of its own.
            with path.open("w", encoding="utf-8", newline="\n") as file:
                write(index, file)
            return
        path = Path(os.path.realpath(path))
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
        new = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                write(index, file)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        # The temporary file's name would say nothing to a person.
        raise file_error(OSError(error.errno, error.strerror), path) from error


def write(index: Index, file: TextIO) -> None:
    for line in exported(index):
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def exported(index: Index) -> Iterator[dict[str, Any]]:
    """The lines; the same for the same documents, whatever happened on the way."""
    documents = [index.document_chunks(content_id) for content_id in index.content_ids()]
    for chunks in sorted(filter(None, documents), key=lambda found: (found[0].name, found[0].path)):
        yield from (line_of(chunk) for chunk in chunks)


def line_of(chunk: StoredChunk) -> dict[str, Any]:
    return {
        "name": chunk.name,
        "other_names": list(chunk.other_names),
        "position": chunk.order,
        "start": chunk.start,
        "end": chunk.end,
        "page": chunk.page,
        "last_page": chunk.last_page,
        "first_line": chunk.first_line,
        "last_line": chunk.last_line,
        "headings": list(chunk.headings),
        "header": chunk.header,
        "text": chunk.text,
    }
