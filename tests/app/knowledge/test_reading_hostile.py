"""Files made to do harm: bombs, names that lead out, endless nesting, pipes instead of files."""

from __future__ import annotations

import os
import socket
import sys
import zipfile
from pathlib import Path

import pytest

from app.knowledge.document import Document, Unreadable
from app.knowledge.reading.limits import Limits
from app.knowledge.reading.read import read
from tests.app.knowledge.document_laws import document_of, state_of
from tests.app.knowledge.made_office import WORD, paragraph, write_docx, write_epub, write_zip

SMALL = Limits(parsed_bytes=50_000, unpacked_bytes=200_000, parts=50)


def test_a_bomb_in_a_word_file_is_refused(tmp_path: Path) -> None:
    body = "<w:p><w:r><w:t>" + " " * 2_000_000 + "</w:t></w:r></w:p>"
    path = write_docx(tmp_path / "a.docx", body)
    assert path.stat().st_size < 10_000
    assert state_of(path, SMALL) == "skipped: it unpacks to more than 200,000 bytes"


def test_a_bomb_in_a_book_is_refused(tmp_path: Path) -> None:
    path = write_epub(tmp_path / "a.epub", ["<p>" + "a" * 100_000 + "</p>"])
    assert state_of(path, SMALL) == "too large"
    many = write_epub(tmp_path / "b.epub", ["<p>" + "a" * 40_000 + "</p>"] * 10)
    assert state_of(many, SMALL) == "skipped: it unpacks to more than 200,000 bytes"


def test_an_archive_of_too_many_parts_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.docx", {f"p{number}": "" for number in range(51)})
    assert state_of(path, SMALL) == "skipped: more than 50 parts"


def test_a_part_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    path = write_docx(tmp_path / "a.docx", paragraph("x" * 5000))
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02") + 24  # the size in the list of parts
    data[place : place + 4] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    assert state_of(path) == "skipped: damaged"


@pytest.mark.parametrize(
    "name",
    ["../evil.txt", "/etc/passwd", "a/../../b", "..\\evil.txt", "C:\\evil.txt", "\\\\host\\x"],
)
@pytest.mark.parametrize("kind", ["docx", "epub"])
def test_names_that_lead_out_of_the_archive_are_refused(
    tmp_path: Path, name: str, kind: str
) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "docx":
        write_docx(path, paragraph("x"), **{name: "evil"})
    else:
        write_epub(path, ["<p>x</p>"], more={name: "evil"})
    assert state_of(path) == "skipped: names of parts lead out of it"
    assert not [one for one in tmp_path.rglob("*") if one.name in ("evil.txt", "x", "b")]
    assert not (tmp_path.parent / "evil.txt").exists()


def test_links_of_a_book_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    path = write_epub(tmp_path / "a.epub", ["<p>x</p>"])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    package = parts["OEBPS/book.opf"]
    item = '<item id="e" href="{}" media-type="text/html"/></manifest>'
    for place in ("../../../../etc/passwd", "file:///etc/passwd", "/etc/passwd", "http://host/x"):
        parts["OEBPS/book.opf"] = package.replace("</manifest>", item.format(place)).replace(
            "</spine>", '<itemref idref="e"/></spine>'
        )
        assert document_of(write_zip(tmp_path / "b.epub", parts)).text == "x"


BOMB = (
    '<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY b{n} "{f"&b{n - 1};" * 10 if n else "&a;" * 10}">' for n in range(9))
    + "]>"
)
OUTSIDE = '<!DOCTYPE w [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
PARAMETER = '<!DOCTYPE w [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]>'


@pytest.mark.parametrize("head", [BOMB, OUTSIDE, PARAMETER])
def test_declared_entities_are_refused(tmp_path: Path, head: str) -> None:
    body = "<w:p><w:r><w:t>&b8;&a;</w:t></w:r></w:p>"
    state = "skipped: it declares XML entities"
    assert state_of(write_docx(tmp_path / "a.docx", body, head)) == state
    wide = f'<?xml version="1.0" encoding="utf-16"?>{head}<w xmlns:w="{WORD}">&a;</w>'
    parts: dict[str, str | bytes] = {"word/document.xml": wide.encode("utf-16")}
    assert state_of(write_zip(tmp_path / "b.docx", parts)) == state
    container = {"META-INF/container.xml": f"{head}<container>&a;</container>"}
    assert state_of(write_zip(tmp_path / "a.epub", container)) == state


def test_endless_nesting_ends(tmp_path: Path) -> None:
    deep = write_docx(tmp_path / "a.docx", "<w:sdt>" * 5000 + paragraph("x") + "</w:sdt>" * 5000)
    assert state_of(deep) == "skipped: more than 500 levels of nesting"
    page = tmp_path / "a.html"
    page.write_text("<div>" * 10_000 + "deep" + "</div>" * 10_000 + "<p>after", "utf-8")
    assert document_of(page).text == "deep\n\nafter"
    tables = tmp_path / "b.html"
    tables.write_text("<table><tr><td>" * 300 + "deep", "utf-8")
    assert document_of(tables).text == "deep"
    lists = tmp_path / "a.json"
    lists.write_text("[" * 100_000, "utf-8")
    assert isinstance(read(lists), Document)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes and devices among files")
def test_pipes_devices_sockets_links_and_folders_are_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    (tmp_path / "real.txt").write_text("x")
    (tmp_path / "folder.md").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(tmp_path / "s"))  # its path has a short limit
        for name in ("pipe.txt", "link.txt", "folder.md", "s"):
            assert state_of(tmp_path / name) == "skipped: not a regular file"
    for device in ("/dev/zero", "/dev/null", "/dev/tty"):
        if os.path.exists(device):
            assert state_of(Path(device)) == "skipped: not a regular file"


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_folder_replaced_by_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "sub").symlink_to(tmp_path / "outside")
    assert read(root / "sub" / "a.txt", root=root) == Unreadable(
        "skipped: it lies outside the folder"
    )
    (root / "b.txt").write_text("inside")
    linked = tmp_path / "linked"
    linked.symlink_to(root)
    assert isinstance(read(linked / "b.txt", root=linked), Document)


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    assert state_of(tmp_path / "no.txt") == "skipped: the file is gone"
    (tmp_path / "file").write_text("x")
    assert state_of(tmp_path / "file" / "no.txt") == "skipped: the file is gone"
    assert state_of(tmp_path / ("x" * 300 + ".txt")) == "skipped: the path is too long"


def test_no_permission_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "no", str(path))

    monkeypatch.setattr(os, "open", refuse)
    assert state_of(path) == "skipped: no permission"


@pytest.mark.parametrize("kind", ["", "RSA ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_under_another_name_is_secret(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "notes.md"
    path.write_text(f"\n-----BEGIN {kind}PRIVATE KEY-----\nMIIEv\n", "utf-8")
    assert state_of(path) == "skipped: secret"
    path.write_text(f"A key begins with -----BEGIN {kind}PRIVATE KEY-----\n", "utf-8")
    assert document_of(path).text.startswith("A key")


@pytest.mark.parametrize(
    ("name", "line"), [("a.md", "# h\n"), ("a.py", "def f(): 1\n"), ("a.html", "<h1>h</h1>x")]
)
def test_sections_without_number_are_few(tmp_path: Path, name: str, line: str) -> None:
    path = tmp_path / name
    path.write_text(line * 1000 + "end", "utf-8")
    document = document_of(path, Limits(sections=20))
    assert len(document.sections) <= 22
    if document.has_lines:  # nothing is left out of the text
        assert document.text.endswith("end")
