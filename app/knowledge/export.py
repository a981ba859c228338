"""Writes all that an index holds as JSON lines: one chunk a line, by document and position."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.errors import file_error
from app.knowledge.index import Index
from app.knowledge.stored import StoredChunk


def export(index: Index, path: Path) -> None:
    """Replaces the file when all is written; StorageError where that fails."""
    new = path.with_name(path.name + ".part")
    try:
        descriptor = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            for line in exported(index):
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        new.replace(path)
    except OSError as error:
        raise file_error(error, path) from error
    finally:
        new.unlink(missing_ok=True)


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
