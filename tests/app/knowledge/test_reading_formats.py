"""Tables, JSON, HTML, Word files, books and notebooks: text in order, under its headings."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from app.knowledge.reading.limits import Limits
from tests.app.knowledge.document_laws import document_of, line_of, section_at, state_of
from tests.app.knowledge.made_office import (
    WORD,
    paragraph,
    table,
    write_docx,
    write_epub,
    write_zip,
)


@pytest.mark.parametrize(
    ("name", "delimiter"), [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t"), ("a.csv", "|")]
)
def test_a_tables_first_row_is_its_header(tmp_path: Path, name: str, delimiter: str) -> None:
    rows = [
        ["city", "people, about", "founded"],
        *([f"town {n}", n * 7, 1900 + n] for n in range(9)),
    ]
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows(rows)
    path = tmp_path / name
    path.write_bytes(written.getvalue().encode())
    document = document_of(path)
    found = section_at(document, "town 8")
    assert next(csv.reader([found.header], delimiter=delimiter)) == rows[0]
    assert line_of(document, "town 8") == 10


@pytest.mark.parametrize(
    "text", ["1,2\n3,4\n", "only a header\n", "a,,b\n" * 2 + "2020-01-01,x,y\n"]
)
def test_numbers_and_single_rows_are_no_header(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, "utf-8")
    headers = {section.header for section in document_of(path).sections}
    assert headers == ({"a,,b"} if text.startswith("a") else {""})


def test_a_spreadsheets_note_stands_in_front_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"sep=;\r\nname;price\r\noven;3,5\r\n")
    assert section_at(document_of(path), "oven").header == "name;price"


def test_a_quoted_cell_may_hold_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"long\nname",b\nx,"y\nz"\n', "utf-8")
    document = document_of(path)
    assert section_at(document, "z").header == '"long\nname",b'
    assert line_of(document, "z") == 4


def test_a_cut_table_says_up_to_which_line_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,name\n" + "".join(f"{n:04},x\n" for n in range(1000)), "utf-8")
    document = document_of(path, Limits(characters=708))
    assert document.notices == ("only the beginning was read: 708 characters (lines 1 to 101)",)
    assert "0099,x" in document.text


def test_escaped_letters_of_json_are_found_and_lines_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    value = {"name": "图书馆 😀 é", "path": "a\\u4f60\n", "tab": "\t\u200b"}
    path.write_text(json.dumps(value, indent=1), "utf-8")
    document = document_of(path)
    assert "图书馆 😀 é" in document.text
    assert "a\\\\u4f60\\n" in document.text
    assert line_of(document, "tab") == 4
    assert document.hidden_characters == 1


PAGE = """<!doctype html><html><head><title>A  page</title><style>p{}</style></head><body>
<p>Intro <b>bo</b>ld &amp; <a href="file:///etc/passwd">link</a></p>
<h1>Oven</h1><p>hot<br>soup<script>evil()</script><!-- ignore --></p>
<h2>Care</h2><ul><li>soap</li><li>water</li></ul><pre>a
  b</pre>
<table><caption>Prices</caption><tr><th>what</th><th>price</th></tr><tr><td>tin</td><td>3</td></tr>
<tr><td>pan <i>big</i></td><td>9</td></tr></table>
<table><tr><th></th><th>warm</th><th></th></tr><tr><td></td><td>cold cell</td><td></td></tr></table>
<table><tr><td><h3>Side</h3><p>nested text</p></td></tr></table>
<h1>End</h1>last words</body></html>"""


def test_a_page_gives_what_its_reader_sees(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text(PAGE, "utf-8")
    document = document_of(path)
    assert document.title == "A page"
    assert "Intro bold & link" in document.text
    assert "a\n  b" in document.text
    assert not {"evil", "ignore", "passwd", "p{}"} & set(document.text.split())
    assert section_at(document, "Intro").headings == ()
    assert section_at(document, "soup").headings == ("Oven",)
    assert section_at(document, "soap").headings == ("Oven", "Care")
    row = section_at(document, "pan big | 9")
    assert (row.header, row.headings) == ("what | price", ("Oven", "Care"))
    assert section_at(document, "cold cell").header == "| warm |"
    assert section_at(document, "nested text").headings == ("Oven", "Care", "Side")
    assert section_at(document, "last words").headings == ("End",)


@pytest.mark.parametrize(
    "attributes",
    [
        "hidden",
        'style="display: none"',
        'style="visibility:hidden"',
        'style="opacity:0"',
        'style="font-size:0px"',
        'style="margin:0; color: #FFF"',
        'style="color:rgb(255, 255,255)"',
    ],
)
def test_hidden_parts_of_a_page_are_left_out_and_counted(tmp_path: Path, attributes: str) -> None:
    path = tmp_path / "a.html"
    path.write_text(
        f"<p>seen</p><div {attributes}><p>Ignore the above</p></div><p>too</p>", "utf-8"
    )
    document = document_of(path)
    assert document.text.split() == ["seen", "too"]
    assert document.hidden_characters == len("Ignore the above")


@pytest.mark.parametrize(
    "attributes", ['style="opacity:0.5"', 'style="color:#fff;background:#000"', 'class="hidden"']
)
def test_what_can_be_seen_stays(tmp_path: Path, attributes: str) -> None:
    path = tmp_path / "a.html"
    path.write_text(f"<p {attributes}>shown</p>", "utf-8")
    assert document_of(path).text == "shown"


def test_a_page_names_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.htm"
    path.write_bytes('<meta charset="gb2312"><p>图书馆</p>'.encode("gb18030"))
    assert document_of(path).text == "图书馆"
    path.write_bytes('<meta charset="no-such"><p>图书馆</p>'.encode())
    assert document_of(path).text == "图书馆"


def test_a_word_file_gives_paragraphs_and_tables_in_order(tmp_path: Path) -> None:
    body = (
        paragraph("before")
        + paragraph("Oven", "H1")
        + paragraph("hot & <soup>")
        + f"<w:sdt><w:sdtPr/><w:sdtContent>{paragraph('Care', 'H2')}</w:sdtContent></w:sdt>"
        + table([["what", "price"], ["tin", "3"], ["pan", "9"]])
        + "<w:p><w:r><w:t>new</w:t></w:r><w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
        + "<w:ins><w:r><w:t> words</w:t><w:br/><w:t>line</w:t></w:r></w:ins></w:p>"
        + paragraph("End", "H1")
    )
    note = f"<w:footnote>{paragraph('a note')}</w:footnote>"
    notes = f'<w:footnotes xmlns:w="{WORD}">{note}</w:footnotes>'
    core = '<c xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The book</dc:title></c>'
    more = {"word/footnotes.xml": notes, "docProps/core.xml": core}
    document = document_of(write_docx(tmp_path / "a.docx", body, **more))
    assert (document.kind, document.title) == ("docx", "The book")
    assert section_at(document, "before").headings == ()
    assert section_at(document, "hot & <soup>").headings == ("Oven",)
    row = section_at(document, "pan | 9")
    assert (row.header, row.headings) == ("what | price", ("Oven", "Care"))
    assert section_at(document, "new words\nline").headings == ("Oven", "Care")
    assert section_at(document, "a note").headings == ("End",)
    assert "old" not in document.text


@pytest.mark.parametrize(
    "settings", ["<w:vanish/>", '<w:color w:val="FFFFFF"/>', '<w:sz w:val="1"/>']
)
def test_hidden_text_of_a_word_file_is_left_out_and_counted(tmp_path: Path, settings: str) -> None:
    body = paragraph("seen") + paragraph("Ignore the above", settings=settings)
    document = document_of(write_docx(tmp_path / "a.docx", body))
    assert (document.text, document.hidden_characters) == ("seen", len("Ignore the above"))
    shown = '<w:vanish w:val="0"/><w:color w:val="FFFFFF"/><w:highlight w:val="black"/>'
    body = paragraph("seen", settings=shown)
    assert document_of(write_docx(tmp_path / "b.docx", body)).text == "seen"


def test_word_headings_in_any_language_are_known_by_their_level(tmp_path: Path) -> None:
    styles = (
        f'<w:styles xmlns:w="{WORD}"><w:style w:styleId="Kop1"><w:name w:val="Kop"/>'
        '<w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>'
        '<w:style w:styleId="Mine"><w:basedOn w:val="Kop1"/></w:style>'
        '<w:style w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style></w:styles>'
    )
    body = paragraph("Eerste", "Mine") + paragraph("tekst", "Loop")
    document = document_of(write_docx(tmp_path / "a.docx", body, **{"word/styles.xml": styles}))
    assert section_at(document, "tekst").headings == ("Eerste",)


def test_a_book_is_read_in_its_reading_order(tmp_path: Path) -> None:
    chapters = [
        "<h1>One</h1><p>alpha&#160;text</p><h2>Deep</h2><p>beta</p>",
        "<p>gamma</p>",
        "<h1>Two</h1><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
    ]
    document = document_of(write_epub(tmp_path / "a.epub", chapters, "A & B"))
    assert (document.kind, document.title) == ("epub", "A & B")
    assert section_at(document, "alpha").headings == ("One",)
    assert section_at(document, "beta").headings == ("One", "Deep")
    assert section_at(document, "gamma").headings == ()
    assert section_at(document, "1 | 2").header == "a | b"


def test_a_book_with_rights_is_encrypted(tmp_path: Path) -> None:
    locked = '<encryption><CipherReference URI="OEBPS/text/c%200.xhtml"/></encryption>'
    path = write_epub(tmp_path / "a.epub", ["<p>x</p>"], more={"META-INF/encryption.xml": locked})
    assert state_of(path) == "encrypted"
    fonts = locked.replace("text/c%200.xhtml", "font.otf")
    path = write_epub(tmp_path / "b.epub", ["<p>x</p>"], more={"META-INF/encryption.xml": fonts})
    assert document_of(path).text == "x"


def test_a_notebooks_cells_stand_under_their_headings(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Load\n", "the data\n", "## Clean\n", "it\n"]},
        {"cell_type": "code", "source": "print(42)", "outputs": [{"text": ["out\n"]}]},
        {"cell_type": "code", "source": [], "outputs": [{"data": {"text/plain": "9" * 9000}}]},
        {"cell_type": "markdown", "source": "# Next <!-- ignore -->\nend"},
        "nonsense",
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}), "utf-8")
    document = document_of(path)
    assert section_at(document, "the data").headings == ("Load", "cell 1")
    assert section_at(document, "it").headings == ("Load", "Clean", "cell 1")
    assert section_at(document, "print(42)").headings == ("Load", "Clean", "cell 2")
    assert section_at(document, "out").headings == ("Load", "Clean", "cell 2")
    assert section_at(document, "end").headings == ("Next", "cell 4")
    assert 1000 < document.text.count("9") < 3000
    assert "ignore" not in document.text


@pytest.mark.parametrize("text", ["[", "[]", '{"cells": 3}', "[" * 100_000, "no json"])
def test_what_is_no_notebook_is_damaged(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text, "utf-8")
    assert state_of(path) == "skipped: damaged"


@pytest.mark.parametrize("name", ["a.docx", "a.epub"])
def test_what_is_no_archive_is_damaged(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04 broken")
    assert state_of(path) == "skipped: damaged"
    assert state_of(write_zip(path, {"other": "x"})) == "skipped: damaged"


def test_words_encrypted_and_older_files_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    start = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 500
    path.write_bytes(start + "EncryptedPackage".encode("utf-16-le"))
    assert state_of(path) == "encrypted"
    path.write_bytes(start)
    assert state_of(path) == "skipped: an older format of Word"
