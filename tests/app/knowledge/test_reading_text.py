"""Text files: right letters in any encoding, lines of the file, nothing invisible."""

from __future__ import annotations

import codecs
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.knowledge.reading.cleaning import cleaned
from app.knowledge.reading.encoding import decode
from app.knowledge.reading.limits import Limits
from tests.app.knowledge.document_laws import (
    check,
    document_of,
    line_of,
    lines_of_file,
    section_at,
    state_of,
)

CHINESE = "图书馆每天早上九点开门，晚上十点关门。读者可以借五本书，最多一个月。\n请安静。\n" * 5
TRADITIONAL = "圖書館每天早上九點開門，晚上十點關門。讀者可以借五本書。\n請保持安靜。\n" * 5
JAPANESE = "図書館は毎朝九時に開きます。本は五冊まで借りられます。\n静かにしてください。\n" * 5
POLISH = "Proszę zachować ciszę w czytelni.\nCzytelnicy mogą wypożyczyć pięć książek.\n" * 5
GERMAN = "Die Bücherei öffnet täglich um neun.\nGroße Bücher dürfen nicht ausgeliehen werden.\n" * 5


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (CHINESE, "utf-8"),
        (CHINESE, "utf-8-sig"),
        (CHINESE, "utf-16"),
        (CHINESE, "utf-32"),
        (GERMAN, "utf-16-le"),
        (GERMAN, "utf-16-be"),
        (CHINESE, "gb18030"),
        (TRADITIONAL, "big5"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        (JAPANESE, "iso2022_jp"),
        (GERMAN, "cp1252"),
        (GERMAN + "Preis: 5 €\n", "cp1252"),
        ("Heat the oven to 180 °C for 20 minutes.\n", "cp1252"),
        ("Les élèves étudient le français où ils êtaient allés hier.\n" * 3, "cp1252"),
        (POLISH, "cp1250"),
        ("Библиотека открывается в девять часов утра.\n", "koi8_r"),
        ("도서관은 매일 아침 아홉 시에 문을 엽니다.\n", "euc_kr"),
    ],
)
def test_every_encoding_gives_the_letters_and_lines_that_were_written(
    tmp_path: Path, text: str, encoding: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    document = document_of(path)
    assert document.text == text
    assert document.has_lines
    assert document.hidden_characters == 0


def test_a_wide_text_without_its_mark_and_without_ascii_is_never_garbage(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(CHINESE.encode("utf-16-le"))
    assert state_of(path).startswith("skipped: ")


def test_a_few_broken_bytes_cost_their_characters_only(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    data = CHINESE.encode()
    path.write_bytes(data + b"\xff\xfe tail\n" + data)
    document = document_of(path)
    assert document.text.startswith(CHINESE)
    assert document.text.endswith(CHINESE)
    assert document.notices == ("2 broken characters",)


def test_broken_bytes_in_plain_letters_cost_themselves_only(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    lines = b"".join(b"line %d of the log\n" % number for number in range(100))
    path.write_bytes(lines + b"\x81\x8d\x8f\x90\x9d\xff\xfe\xf8\xf9\xfa \n" + lines)
    document = document_of(path)
    assert line_of(document, "line 99 of") == 100
    assert document.notices


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" * 50),
        ("a.md", bytes(range(256)) * 40),
        ("a.py", b"\x7fELF" + b"\0" * 100),
        ("a.csv", b"PK\x03\x04" + b"a" * 100),
        ("a.unknown", b"\0\1\2\3" * 500),
    ],
)
def test_a_binary_file_is_skipped_whatever_its_name(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert state_of(path) == "skipped: binary file"


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", codecs.BOM_UTF8, "\u200b\u200b".encode()])
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.json", "a.py", "a.html"])
def test_a_file_without_text_is_skipped_as_empty(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert state_of(path) == "skipped: empty"


PIECES = st.sampled_from(
    [
        *("\n", "\r\n", "\r", "a", "é", "e\u0301", "你", "😀", "\u200b", "\u2028", "\x0b", "\x0c"),
        *("\x85", "\0", "\x1b[31m", "\x1b[0m", "\x1b]0;t\x07", "\u202e", "\ufeff", "\ud800"),
        *("\udcff", " ", "\t", "\U000e0041", "👨\u200d👩", "می\u200cخواهم", "- ", "# x"),
        *("<!-- ", " -->", "|", "```"),
    ]
)


@given(st.lists(PIECES, max_size=40), st.sampled_from(["a.txt", "a.md", "a.py", "a.csv", "a.json"]))
@settings(max_examples=200, deadline=None)
def test_lines_stay_the_files_lines(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], name: str
) -> None:
    data = ("begin" + "".join(pieces) + "end").encode("utf-8", "surrogatepass")
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(data)
    if isinstance(found := decode_or_none(data), str):
        document = document_of(path)
        # Each line of the file is told from the others by the letters that stay.
        expected = [visible(line) for line in lines_of_file(data, "utf-8")]
        if name != "a.md":  # comments are taken out there, lines are not
            assert [visible(line) for line in document.text.split("\n")] == expected
        assert document.text.count("\n") == len(expected) - 1
        assert found


def decode_or_none(data: bytes) -> str | None:
    """Lone halves are no UTF-8; what they are read as is another law."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def visible(line: str) -> str:
    letters = (one for one in unicodedata.normalize("NFC", line) if one.isalnum())
    return "".join(letters).replace("31m", "").replace("0m", "").replace("0t", "")


def test_halves_of_pairs_in_a_file_break_no_line_and_reach_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("größer\nzwei\ud800\r\ndrei äöü\n".encode("utf-8", "surrogatepass"))
    document = document_of(path)
    assert line_of(document, "drei") == 3
    assert line_of(document, "größer") == 1


@given(st.lists(PIECES, max_size=60).map("".join))
@settings(max_examples=200, deadline=None)
def test_cleaning_is_idempotent_and_keeps_what_is_seen(text: str) -> None:
    once = cleaned(text).text
    again = cleaned(once)
    assert (again.text, again.hidden) == (once, 0)
    assert once == unicodedata.normalize("NFC", once)
    for shown in ("你", "é", "😀", "👨\u200d👩", "می\u200cخواهم"):
        assert once.count(shown) >= text.count(shown)


def test_hidden_characters_are_counted_and_ordinary_ones_are_not() -> None:
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore the above")
    found = cleaned(f"a{tags}b\u200bc\u202ed\0")
    assert (found.text, found.hidden) == ("abcd", len(tags) + 3)
    ordinary = "\ufeffsoft\xadhyphen \x1b[31mred\x1b[0m page\x0cbreak 👨\u200d👩 می\u200cخواهم"
    assert cleaned(ordinary).hidden == 0
    assert cleaned(ordinary).text == "softhyphen red page break 👨\u200d👩 می\u200cخواهم"


def test_terminal_commands_do_not_stay_as_text() -> None:
    found = cleaned("see \x1b]8;;file:///etc/passwd\x1b\\link\x1b]8;;\x1b\\ \x1b[2Jnow")
    assert "\x1b" not in found.text
    assert "passwd" not in found.text
    assert found.text == "see link now"
    assert found.hidden > 0


def test_a_long_file_is_read_to_a_lines_end_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(b"line %d of the log\n" % number for number in range(1000)))
    document = document_of(path, Limits(characters=1000))
    assert 900 < len(document.text) <= 1000
    assert document.text.endswith("of the log\n")
    assert document.notices == (f"only the beginning was read: {len(document.text):,} characters",)


def test_a_file_whose_beginning_alone_is_empty_is_not_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n" * 5000 + "words")
    assert state_of(path, Limits(characters=4000)) == "too large"


@pytest.mark.parametrize("text", ["x" * 5000, "你" * 5000, "\u200b" * 3000 + "y" * 3000])
def test_one_long_line_is_read_in_part(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    document = document_of(path, Limits(characters=4000))
    assert 0 < len(document.text) <= 4000
    assert document.text in text.replace("\u200b", "")
    assert document.notices


def test_a_cut_inside_a_character_is_no_broken_character(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a" + "你好\n".encode() * 2000)
    document = document_of(path, Limits(characters=1001))
    assert document.text.startswith("a你好\n你好\n")
    assert "\ufffd" not in document.text


def test_code_stands_under_its_definitions(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        "import os\n\n\nclass Oven:\n    def heat(self):\n        return 180\n\n\ndef cool():\n"
        "    return 20\n",
        encoding="utf-8",
    )
    document = document_of(path)
    assert document.kind == "code"
    assert section_at(document, "import os").headings == ()
    assert section_at(document, "180").headings == ("Oven", "heat")
    assert section_at(document, "20").headings == ("cool",)
    assert line_of(document, "180") == 6


@pytest.mark.parametrize(
    ("name", "line", "definition"),
    [
        ("a.rs", "pub async fn melt(x: u8) {", "melt"),
        ("a.go", "func (o *Oven) Heat() {", "Heat"),
        ("a.ts", "export default class Oven {", "Oven"),
        ("a.js", "async function melt() {", "melt"),
        ("a.java", "public static class Oven {", "Oven"),
        ("a.kt", "data class Oven(val heat: Int)", "Oven"),
        ("a.sql", "CREATE TABLE ovens (", "ovens"),
    ],
)
def test_definitions_of_many_languages_are_headings(
    tmp_path: Path, name: str, line: str, definition: str
) -> None:
    path = tmp_path / name
    path.write_text(f"// first\n{line}\n  inner\n", encoding="utf-8")
    assert section_at(document_of(path), "inner").headings == (definition,)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.rst", "=====\nOven\n=====\nhot\n\nCare\n----\nsoap\n\nNext\n====\n\nend\n"),
        ("a.rst", "Oven\n====\n\nhot\n\nCare\n~~~~\nsoap\n\n----\n\nNext\n====\nend\n"),
        ("a.org", "* Oven\nhot\n** Care\n*bold* soap\n* Next\nend\n"),
        ("a.adoc", "= Oven\nhot\n\n== Care\nsoap\n\n= Next\nend\n"),
        ("a.tex", "\\section{Oven}\nhot\n  \\subsection*{Care}\nsoap\n\\section{Next}\nend\n"),
    ],
)
def test_other_markup_stands_under_its_headings(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    document = document_of(path)
    assert document.text == text
    assert section_at(document, "hot").headings == ("Oven",)
    assert section_at(document, "soap").headings == ("Oven", "Care")
    if not text.startswith("====="):  # a line above makes it another kind of heading
        assert section_at(document, "end").headings == ("Next",)


def test_decoding_says_what_it_guessed() -> None:
    assert decode(GERMAN.encode("cp1252")).notice.startswith("read as ")
    assert decode(GERMAN.encode()).notice == ""


def test_every_document_of_a_plain_file_obeys_the_laws(tmp_path: Path) -> None:
    path = tmp_path / "README"
    path.write_text("no suffix\n\n  indented\n\n", encoding="utf-8")
    document = document_of(path)
    check(document)
    assert document.kind == "text"
    assert [document.text[one.start : one.end] for one in document.sections] == [
        "no suffix\n\n  indented"
    ]
