"""Laws of a passage in its document: nothing is lost, nothing but an index is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from app.knowledge.passage import Passage
from app.knowledge.source_view import (
    AROUND,
    CHANGED,
    GONE,
    alone,
    chunks_of,
    in_document,
    page_starts,
    with_pages,
)
from tests.app.fake_base import FakeIndex

LINES = "".join(f"Line {number} of the book.\n" for number in range(4_000))


def passage(text: str, start: int, end: int, name: str = "book.md") -> Passage:
    return Passage(Path("/docs") / name, name, text[start:end], start, end)


def index(**texts: str) -> Any:
    return FakeIndex({name.replace("_", "."): text for name, text in texts.items()})


@pytest.mark.parametrize(
    ("start", "end"), [(0, 20), (40_000, 40_100), (len(LINES) - 9, len(LINES))]
)
def test_before_passage_and_after_are_the_document_as_far_as_it_is_shown(
    start: int, end: int
) -> None:
    view = in_document(passage(LINES, start, end), index(book_md=LINES))
    shown = view.before + view.passage + view.after
    assert view.passage == LINES[start:end]
    assert LINES[view.cut_before : len(LINES) - view.cut_after] == shown
    assert len(shown) <= 2 * AROUND + end - start
    assert view.notices == ()


def test_a_document_that_is_gone_or_changed_shows_the_passage_alone() -> None:
    one = passage(LINES, 40, 90)
    gone = in_document(one, index(other_md=LINES))
    changed = in_document(one, index(book_md="Another line.\n" + LINES))
    for view, notice in ((gone, GONE), (changed, CHANGED)):
        assert view.notices == (notice,)
        assert (view.before, view.passage, view.after) == ("", one.text, "")


def test_a_name_that_is_part_of_another_opens_only_its_own_document() -> None:
    texts = index(book_md="Other.", old_book_md=LINES)
    assert chunks_of(Path("/docs/book.md"), "book.md", texts)[0].text == "Other."
    assert chunks_of(Path("/etc/passwd"), "../../etc/passwd", texts) == []


def test_pages_begin_where_they_begin() -> None:
    text = "one\ntwo\nthree"
    starts = [(0, 1), (4, 2), (8, 3), (99, 4)]
    assert with_pages(text, 0, starts) == ("— page 1 —\none\n— page 2 —\ntwo\n— page 3 —\nthree")
    assert with_pages(text[4:], 4, starts) == "— page 2 —\ntwo\n— page 3 —\nthree"
    assert with_pages(text[5:7], 5, starts) == "wo"
    assert with_pages("", 0, starts) == ""


def test_only_the_first_chunk_of_a_page_begins_it() -> None:
    one = FakeIndex({"a.pdf": "text"}).document_chunks(0)[0]
    pages = [(0, 1, 1), (10, 1, 2), (20, 2, 2), (30, 3, 3)]
    chunks = [replace(one, start=s, page=p, last_page=q) for s, p, q in pages]
    assert list(page_starts(chunks)) == [(0, 1), (30, 3)]
    assert list(page_starts(cast(Any, [one, one]))) == []


def test_a_table_row_alone_stands_under_its_header() -> None:
    row = replace(passage("Ada,5", 0, 5), header="name,age")
    assert alone(row).passage == "name,age\nAda,5"
    assert alone(replace(row, text="name,age\nAda,5")).passage == "name,age\nAda,5"
