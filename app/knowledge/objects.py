"""Knowledge bases and what they find as JSON objects; scripts rely on the names of the fields."""

from __future__ import annotations

from typing import Any

from app.knowledge.passage import Passage, Retrieved
from app.knowledge.states import FileState, Status, SyncReport


def status_object(status: Status) -> dict[str, Any]:
    search = status.vector_search
    return {
        "name": status.name,
        "roots": [str(root) for root in status.roots],
        "missing_roots": [str(root) for root in status.missing_roots],
        "files": status.files,
        "indexed_files": status.indexed_files,
        "chunks": status.chunks,
        "embedded_chunks": status.embedded_chunks,
        "embedder": status.embedder,
        "vector_search": None if search is None else search.way,
        "vector_search_notice": "" if search is None else search.notice,
        "index_bytes": status.index_bytes,
        "is_syncing": status.is_syncing,
        "synced": status.synced,
    }


def file_object(file: FileState) -> dict[str, Any]:
    return {
        "name": file.name,
        "path": str(file.path),
        "state": file.state,
        "bytes": file.size,
        "chunks": file.chunks,
        "notices": list(file.notices),
    }


def report_object(report: SyncReport, status: Status) -> dict[str, Any]:
    """A sync and the base after it, for programs."""
    return {
        **status_object(status),
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "unchanged": report.unchanged,
        "parsed": report.parsed,
        "embedded": report.embedded,
        "is_complete": report.is_complete,
        "searchable_after": report.searchable_after,
        "not_indexed": [file_object(file) for file in report.unfinished],
    }


def passage_object(passage: Passage) -> dict[str, Any]:
    """One place of one document, with the text that stands there."""
    return {
        "file": str(passage.path),
        "name": passage.name,
        "place": passage.place,
        "page": passage.page,
        "last_page": passage.last_page,
        "first_line": passage.first_line,
        "last_line": passage.last_line,
        "start": passage.start,
        "end": passage.end,
        "headings": list(passage.headings),
        "header": passage.header,
        "text": passage.text,
        "score": round(passage.score, 4),
        "reason": passage.reason,
        "other_names": list(passage.other_names),
        "hidden_characters": passage.hidden_characters,
    }


def retrieved_object(name: str, question: str, retrieved: Retrieved) -> dict[str, Any]:
    """What a question finds; where `is_refused` is true, the nearest, which are not near enough."""
    return {
        "name": name,
        "question": question,
        "is_refused": retrieved.is_refused,
        "reason": retrieved.reason,
        "needs_all": retrieved.needs_all,
        "passages": [passage_object(passage) for passage in retrieved.passages],
        "unused": [passage_object(passage) for passage in retrieved.unused],
    }
