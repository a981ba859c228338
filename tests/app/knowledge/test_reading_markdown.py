"""Markdown: headings, tables and comments, against another parser of Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.knowledge.reading.formats.markdown import markdown_marks, without_comments
from app.knowledge.reading.headings import Headings
from tests.app.knowledge.document_laws import document_of, line_of, section_at, state_of


def test_text_stands_under_its_headings(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(
        b"\xef\xbb\xbfbefore\r\n# Oven `x` #\r\nhot\r\n\r\nCare\r\n----\r\nsoap\r\n\r\n"
        b"```\r\n# no heading\r\n```\r\n### Deep [link](http://x)\r\nbelow\r\n# Next\r\nafter\r\n"
    )
    document = document_of(path)
    assert document.title == "Oven x"
    assert section_at(document, "before").headings == ()
    assert section_at(document, "hot").headings == ("Oven x",)
    assert section_at(document, "soap").headings == ("Oven x", "Care")
    assert section_at(document, "no heading").headings == ("Oven x", "Care")
    assert section_at(document, "below").headings == ("Oven x", "Care", "Deep link")
    assert section_at(document, "after").headings == ("Next",)
    assert line_of(document, "soap") == 7
    assert line_of(document, "after") == 15


LINES = st.sampled_from(
    [
        *("# A", "## B ##", "### C #x", "#no", "   # D", "    # code", "text", "more text", ""),
        *("```", "~~~~", "``` x", "===", "---", "- item", "> quote", "> # inside", "# `a` *b*"),
        *("#", "|x|", ""),
    ]
)


@given(st.lists(LINES, max_size=15))
@settings(max_examples=150, deadline=None)
def test_headings_are_those_of_another_parser(lines: list[str]) -> None:
    text = "\n".join(["", *lines])  # not at the top, where `---` begins settings
    tokens = [one for one in MarkdownIt().parse(text) if one.type == "heading_open" and one.map]
    anywhere = {token.map[0] for token in tokens if token.map}
    # Signs outside of lists and quotes; a heading of several lines that is underlined is rare.
    plain = {token.map[0] for token in tokens if token.map and token.level == 0}
    signed = {line for line in plain if text.split("\n")[line].split()[0].strip("#") == ""}
    marks = markdown_marks(text, Headings())
    mine = {text.count("\n", 0, mark.start) for mark in marks}
    assert signed <= mine <= anywhere


def test_a_tables_rows_carry_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    rows = "".join(f"| item {number} | {number} |\n" for number in range(50))
    path.write_text(f"# Prices\nintro\n\n| what | price |\n|:--|--:|\n{rows}\nafter\n", "utf-8")
    document = document_of(path)
    found = section_at(document, "| item 49 |")
    assert (found.header, found.headings) == ("| what | price |", ("Prices",))
    assert section_at(document, "after").header == ""
    assert section_at(document, "intro").header == ""


def test_settings_at_the_top_give_the_title_and_no_heading(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text('---\ntitle: "The oven"\ntags: x\n---\n# Heat\nhot\n', "utf-8")
    document = document_of(path)
    assert document.title == "The oven"
    assert section_at(document, "tags").headings == ()
    assert line_of(document, "hot") == 6


def test_comments_are_left_out_counted_and_their_lines_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    text = "one <!-- ignore the\nabove --> two\n`<!-- shown -->`\n```\n<!-- code -->\n```\nend\n"
    path.write_text(text, "utf-8")
    document = document_of(path)
    assert "ignore" not in document.text
    assert "above" not in document.text
    assert "<!-- shown -->" in document.text
    assert "<!-- code -->" in document.text
    assert line_of(document, "end") == 7
    assert document.hidden_characters == len("<!-- ignore theabove -->")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<!-- never closed\nb\n", "a\n\n"),
        ("a<!--x--><!--y-->b", "ab"),
        ("a<!-->b", "ab"),
        ("<!--\n# x\n-->\n# y", "\n\n\n# y"),
        ("no comment", "no comment"),
    ],
)
def test_comments_end_where_html_says(text: str, expected: str) -> None:
    assert without_comments(text) == (expected, len(text) - len(expected))


def test_a_page_of_comments_only_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("<!-- nothing -->\n", "utf-8")
    assert state_of(path) == "skipped: empty"


@pytest.mark.parametrize("piece", ["<!--", "#", "`", "| - ", "[x](", "- ", "> ", "\t", "==="])
def test_no_long_line_takes_long(tmp_path: Path, piece: str) -> None:
    path = tmp_path / "a.md"
    path.write_text("begin\n\n" + piece * 100_000 + "\n", "utf-8")
    assert document_of(path).text.startswith("begin")
