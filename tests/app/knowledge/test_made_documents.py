"""The made set: every fact stands where it is said to stand, whichever reader reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.knowledge.folder_walk import FoundFile, walk
from tests.app.knowledge.document_laws import document_of, line_of, section_at
from tests.app.knowledge.made_documents import Fact, make_set


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> list[Fact]:
    return make_set(tmp_path_factory.mktemp("set"))


def test_the_set_is_large_enough_and_found_by_the_walk(facts: list[Fact]) -> None:
    paths = {fact.path for fact in facts}
    assert len(facts) >= 36
    assert len(paths) == 16
    assert {one.path for one in walk(facts[0].path.parent) if isinstance(one, FoundFile)} == paths
    assert len({fact.question for fact in facts}) == len(facts)


def test_every_fact_stands_on_its_page_line_and_under_its_headings(facts: list[Fact]) -> None:
    documents = {path: document_of(path) for path in {fact.path for fact in facts}}
    for fact in facts:
        document = documents[fact.path]
        section = section_at(document, fact.sentence)
        assert section.page == fact.page, fact
        assert section.headings == fact.headings, fact
        if fact.line is not None:
            assert line_of(document, fact.sentence) == fact.line, fact
        assert (fact.page is not None) + document.has_lines <= 1


def test_the_set_is_the_same_each_time(facts: list[Fact], tmp_path: Path) -> None:
    again = make_set(tmp_path)
    assert [(fact.sentence, fact.line, fact.page) for fact in again] == [
        (fact.sentence, fact.line, fact.page) for fact in facts
    ]
    for fact in facts:
        if fact.path.suffix not in (".docx", ".epub"):  # their zip files hold the time
            assert (tmp_path / fact.path.name).read_bytes() == fact.path.read_bytes()
