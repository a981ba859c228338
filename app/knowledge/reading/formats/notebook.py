"""Notebooks: text, code and short outputs of the cells in order, under the text's headings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from app.knowledge.document import Document, Section
from app.knowledge.reading.builder import DocumentBuilder
from app.knowledge.reading.encoding import decode
from app.knowledge.reading.formats.markdown import markdown_marks, without_comments
from app.knowledge.reading.source import Refused, Source

LONGEST_OUTPUT = 2_000
"""Characters of one cell's output that are kept: the rest is rarely read by anybody."""


def read_notebook(source: Source) -> Document:
    builder = DocumentBuilder("notebook", source.limits)
    for number, cell in enumerate(_cells(source), 1):
        if builder.is_full:
            break
        _add_cell(builder, cell, f"cell {number}")
    return builder.document()


def _cells(source: Source) -> list[dict[str, Any]]:
    text = decode(source.whole(source.limits.parsed_bytes)).text
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused("skipped: damaged") from error
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise Refused("skipped: damaged")
    return [cell for cell in cells if isinstance(cell, dict)]


def _add_cell(builder: DocumentBuilder, cell: dict[str, Any], name: str) -> None:
    text = _joined(cell.get("source"))
    if cell.get("cell_type") == "markdown":
        _add_markdown(builder, text, name)
        return
    under = (*builder.headings.path, name)
    builder.text(text, under=under)
    for output in _outputs(cell):
        builder.text(output[:LONGEST_OUTPUT], under=under)


def _add_markdown(builder: DocumentBuilder, text: str, name: str) -> None:
    shown, hidden = without_comments(text)
    builder.hidden += hidden
    begun = Section(0, 0, builder.headings.path)
    marks = [begun, *markdown_marks(shown, builder.headings)]
    ends = [*(mark.start for mark in marks[1:]), len(shown)]
    for mark, end in zip(marks, ends, strict=True):
        builder.text(shown[mark.start : end], under=(*mark.headings, name))


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        text = data.get("text/plain") if isinstance(data, dict) else output.get("text")
        yield _joined(text)


def _joined(lines: object) -> str:
    """A cell's text is one string or a list of lines."""
    if isinstance(lines, list):
        return "".join(line for line in lines if isinstance(line, str))
    return lines if isinstance(lines, str) else ""
