"""Laws of `localchat kb`, over bases whose answers are set: what is said, asked and returned."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.errors import Busy, DiskFull
from app.indexing import BAR_CELLS, Indexing, progress_words
from app.knowledge.errors import EmbedderChanged, IndexDamaged, KnowledgeError
from app.knowledge.passage import Retrieved
from app.knowledge.states import SyncProgress, SyncReport
from app.knowledge.stored import VectorSearch
from tests.app.fake_knowledge import FakeBase, FakeBases, file_state, passage

READING = (SyncProgress("reading", 1, 2, "a.md"), SyncProgress("reading", 2, 2, "b.md"))
EMBEDDING = (SyncProgress("embedding", 1, 6, is_searchable=True),)


@pytest.fixture
def base(tmp_path: Path) -> FakeBase:
    states = [file_state("a.md"), file_state("scan.pdf", "no text (needs OCR)", 0)]
    report = SyncReport(added=1, unfinished=(states[1],), searchable_after=0.1)
    found = Retrieved((passage(),), unused=(passage("b.md"),))
    return FakeBase(
        "work", [tmp_path], states=states, steps=READING + EMBEDDING, report=report, found=found
    )


@pytest.fixture
def bases(base: FakeBase, monkeypatch: pytest.MonkeyPatch) -> FakeBases:
    bases = FakeBases(base)
    monkeypatch.setattr("app.startup.knowledge_bases", lambda _paths: bases)
    return bases


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["kb", *words])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out, captured.err


def test_a_base_is_made_read_and_told(
    bases: FakeBases, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, out, _ = run(capsys, "create", "new", str(tmp_path))
    assert status == 0
    assert out.startswith("new: 0 files")
    assert bases.bases["new"].roots == (tmp_path,)
    assert bases.bases["new"].syncs == [(False, False)]
    assert bases.bases["new"].is_closed


def test_a_sync_says_when_words_are_ready_and_what_was_not_indexed(
    bases: FakeBases, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, "sync", "work")
    assert status == 0
    assert out == "work: 1 file, 3 passages, all with meaning (1 new)\n"
    assert "Search by words is ready" in err
    assert "no text (needs OCR): scan.pdf" in err


def test_lexical_stops_at_the_words(bases: FakeBases, base: FakeBase, capsys: Any) -> None:
    run(capsys, "sync", "work", "--lexical")
    assert base.syncs == [(True, False)]


def test_a_report_is_one_object(bases: FakeBases, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "sync", "work", "--json")
    found = json.loads(out)
    assert (found["name"], found["added"], found["is_complete"]) == ("work", 1, True)
    assert [file["state"] for file in found["not_indexed"]] == ["no text (needs OCR)"]


def test_ctrl_c_stops_keeps_what_is_done_and_is_status_130(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    shown = Indexing._show

    def press(self: Indexing, progress: SyncProgress) -> None:
        shown(self, progress)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(Indexing, "_show", press)
    status, _, err = run(capsys, "sync", "work")
    assert status == 130
    assert "localchat kb sync work" in err
    assert signal.getsignal(signal.SIGINT) is before


def test_every_question_first_reads_what_changed(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, "query", "work", "When", "does it end?", "--characters", "99")
    assert status == 0
    assert base.syncs == [(True, False)]
    assert base.questions == [("When does it end?", 99)]
    assert out.startswith("[1] notes.md:40-41 (words .81 + meaning .42)\n    The lease ends")
    assert "b.md" in err
    assert "b.md" not in out


def test_passages_for_programs_have_their_place(bases: FakeBases, capsys: Any) -> None:
    _, out, _ = run(capsys, "query", "work", "lease", "--json")
    found = json.loads(out)
    assert found["is_refused"] is False
    one = found["passages"][0]
    assert (one["file"], one["first_line"], one["last_line"]) == ("/docs/notes.md", 40, 41)
    assert (one["start"], one["end"], one["text"]) == (120, 142, "The lease ends in May.")
    assert [other["name"] for other in found["unused"]] == ["b.md"]


def test_a_refusal_says_why_and_is_no_failure(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str]
) -> None:
    base.steps = READING
    base.found = Retrieved((), is_refused=True, reason="Nothing about it in 1 file.")
    assert run(capsys, "query", "work", "moon") == (0, "", "Nothing about it in 1 file.\n")


def test_what_another_process_is_reading_is_asked_as_it_is(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str]
) -> None:
    base.trouble = Busy("Another process is at it.")
    status, out, err = run(capsys, "query", "work", "lease")
    assert status == 0
    assert "[1] notes.md" in out
    assert "Another process" in err


def test_on_a_full_disk_the_index_is_asked_as_it_is(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str]
) -> None:
    base.trouble = DiskFull("The disk is full")
    status, out, err = run(capsys, "query", "work", "When does it end?")
    assert status == 0
    assert "The lease ends" in out
    assert "The disk is full" in err
    status, out, _ = run(capsys, "status", "work")
    assert status == 0
    assert out.startswith("work\n")


def test_status_names_what_is_not_indexed_and_files_names_all(
    bases: FakeBases, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "status", "work")
    assert "scan.pdf" in out
    assert "a.md" not in out
    _, out, _ = run(capsys, "status", "work", "--files")
    assert "a.md" in out
    _, out, _ = run(capsys, "status", "work", "--json")
    assert [file["name"] for file in json.loads(out)["file_states"]] == ["a.md", "scan.pdf"]


def test_status_tells_how_vectors_are_searched(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str]
) -> None:
    for search, line, told in (
        (VectorSearch("graph + exact tail"), "graph + exact tail", ["graph + exact tail", ""]),
        (VectorSearch("exact", "no usearch"), "exact: no usearch", ["exact", "no usearch"]),
        (None, None, [None, ""]),
    ):
        base.vector_search = search
        _, out, _ = run(capsys, "status", "work")
        lines = [each.split(maxsplit=1)[1] for each in out.splitlines() if "vectors " in each]
        assert lines == ([] if line is None else [line])
        _, out, _ = run(capsys, "status", "work", "--json")
        status = json.loads(out)
        assert [status["vector_search"], status["vector_search_notice"]] == told


def test_a_root_that_is_gone_is_said(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    base.report = replace(base.report, missing_roots=(tmp_path / "disk",))
    status, _, err = run(capsys, "sync", "work")
    assert status == 0
    assert "Cannot be read now" in err
    assert "What was indexed of it stays." in err


def test_other_vectors_are_replaced_only_where_that_is_asked_for(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str]
) -> None:
    base.trouble = EmbedderChanged("Other vectors.", "", "Add --yes.")
    assert run(capsys, "sync", "work")[0] == 1
    base.trouble = EmbedderChanged("Other vectors.", "", "Add --yes.")
    assert run(capsys, "sync", "work", "--yes")[0] == 0
    assert base.syncs[-1] == (False, True)


def test_removing_needs_a_yes(bases: FakeBases, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "remove", "work")
    assert status == 2
    assert "--yes" in err
    assert bases.names() == ["work"]
    assert run(capsys, "remove", "work", "--yes")[0] == 0
    assert bases.names() == []


@pytest.mark.parametrize(
    "error",
    [
        IndexDamaged("The index of work is damaged."),
        KnowledgeError("The folders of work cannot be read."),
    ],
)
def test_a_base_that_cannot_be_read_can_be_removed(
    bases: FakeBases,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: KnowledgeError,
) -> None:
    def damaged(_name: str) -> FakeBase:
        raise error

    monkeypatch.setattr(bases, "open", damaged)
    monkeypatch.setattr(bases, "remove", lambda name: (bases.bases.pop(name), ())[1])
    assert run(capsys, "list")[0] == 1
    assert run(capsys, "remove", "work", "--yes")[0] == 0
    assert bases.names() == []


def test_a_folder_is_taken_out_of_a_base(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert run(capsys, "add", "work", str(other))[0] == 0
    assert base.roots == (tmp_path, other)
    assert run(capsys, "remove", "work", str(tmp_path))[0] == 0
    assert base.roots == (other,)
    assert bases.names() == ["work"]


def test_an_export_never_replaces_a_file_unasked(
    bases: FakeBases, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "out.jsonl"
    assert run(capsys, "export", "work", str(file))[0] == 0
    assert file.read_text() == "{}\n"
    assert run(capsys, "export", "work", str(file))[0] == 2
    assert run(capsys, "export", "work", str(file), "--yes")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["crate", "x", "/tmp"],
        ["create", "x"],
        ["create", "x", "/nowhere/at/all"],
        ["add", "work", "/nowhere/at/all"],
        ["create", "x", "~nobody-of-that-name/docs"],
        ["create", "x", "n" * 5000],
        ["create", "x", "nul\0byte"],
        ["add", "work"],
        ["sync"],
        ["sync", "two", "words"],
        ["query", "work"],
        ["query", "work", "  "],
        ["status"],
        ["list", "x"],
        ["export", "work"],
        ["remove"],
        ["sync", "nowhere"],
    ],
)
def test_wrong_words_are_status_2(
    bases: FakeBases, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("localchat: ")


def test_folders_added_to_a_base_that_is_being_read_are_said_to_be(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for words in (["add", "work", str(tmp_path)], ["remove", "work", str(tmp_path)]):
        base.trouble = Busy("The knowledge base work is being brought up to date", "By 12.")
        status, _, err = run(capsys, *words)
        assert status == 1
        assert "folders are changed; when that is done: `localchat kb sync work`" in err


def test_none_of_several_folders_is_added_where_one_is_not_there(
    bases: FakeBases, base: FakeBase, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = list(base.roots)
    (tmp_path / "more").mkdir()
    assert run(capsys, "add", "work", str(tmp_path / "more"), str(tmp_path / "none"))[0] == 2
    os.mkfifo(tmp_path / "pipe")
    assert run(capsys, "add", "work", str(tmp_path / "more"), str(tmp_path / "pipe"))[0] == 2
    assert list(base.roots) == before


def test_a_base_that_cannot_be_opened_is_listed_as_such(
    bases: FakeBases, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = bases.open

    def broken(name: str) -> FakeBase:
        if name == "bad":
            raise IndexDamaged("The index of bad is damaged", "No database.", "Make it again.")
        return opened(name)

    bases.bases["bad"] = FakeBase("bad")
    monkeypatch.setattr(bases, "open", broken)
    status, out, err = run(capsys, "list", "--json")
    assert status == 1
    assert [one["name"] for one in json.loads(out)] == ["work", "bad"]
    assert json.loads(out)[1]["error"] == {
        "code": "failed",
        "message": "The index of bad is damaged. No database.",
        "next": "Make it again.",
    }
    assert "The index of bad is damaged" in err
    status, out, _ = run(capsys, "list")
    assert (status, len(out.splitlines())) == (1, 2)


def test_a_real_base_is_made_follows_its_folder_and_is_forgotten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"LOCALCHAT_{kind}_DIR", str(tmp_path / "home" / kind))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "flat.md").write_text("# Flat\n\nThe lease ends in May.\n")
    (docs / ".env").write_text("KEY=1")
    status, out, err = run(capsys, "create", "work", str(docs), "--lexical")
    assert status == 0
    assert out.startswith("work: 1 file, 1 passage, searched by words (1 new)")
    assert "skipped: secret: .env" in err
    (docs / "boat.md").write_text("The mast is eleven metres long.\nIt is made of spruce.\n")
    _, out, _ = run(capsys, "query", "work", "How long is the mast?", "--json")
    found = json.loads(out)["passages"][0]
    assert (found["name"], found["first_line"]) == ("boat.md", 1)
    text = (docs / "boat.md").read_text()
    assert text[found["start"] : found["end"]] == found["text"]
    status, out, err = run(capsys, "query", "wrok", "mast")
    assert status == 2
    assert "Did you mean “work”?" in err
    assert main(["completion", "--names", "knowledge"]) == 0
    assert capsys.readouterr().out == "work\n"
    assert run(capsys, "remove", "work", "--yes")[0] == 0
    assert run(capsys, "list", "--json")[1] == "[]\n"
    assert sorted(path.name for path in docs.iterdir()) == [".env", "boat.md", "flat.md"]


def test_the_bash_completion_knows_names_with_blanks(capsys: Any, tmp_path: Path) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    code = (
        f'source "{script}"; localchat() {{ printf "work\\nmy papers\\n"; }}; '
        "COMP_WORDS=(localchat kb sync m); COMP_CWORD=3; _localchat; "
        'echo "${COMPREPLY[@]}"; COMP_WORDS=(localchat ask --kb ""); COMP_CWORD=3; _localchat; '
        'echo "${COMPREPLY[@]}"; COMP_WORDS=(localchat kb add work s); COMP_CWORD=4; _localchat; '
        'echo "${COMPREPLY[@]}"; COMP_WORDS=(localchat kb status --f); COMP_CWORD=3; _localchat; '
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    # Nothing for a folder: the shell offers paths there.
    assert done.stdout.splitlines() == ["my\\ papers", "work my\\ papers", "", "--files"]


def test_progress_fits_and_never_counts_beyond_its_end() -> None:
    line = progress_words(SyncProgress("reading", 412, 1000, "notes/a.md"), 4.12)
    assert line.endswith("412 of 1,000 files · 6 s left · notes/a.md")
    line = progress_words(SyncProgress("graph", 600, 1000), 2.0)
    assert line.startswith("linking passages ")
    assert line.endswith("600 of 1,000 passages · 300 a second · 1 s left")
    assert progress_words(SyncProgress("reading", 0, 0), 0.0) == "reading …"
    for done, total in ((0, 9), (5, 3), (3, 3)):
        bar = progress_words(SyncProgress("embedding", done, total), 0.0)
        assert sum(letter in "━─" for letter in bar) == BAR_CELLS


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_ends_a_sync_leaves_no_progress_on_the_terminal(base: FakeBase) -> None:
    from app.console import Console

    def sync(report: Any, **_how: bool) -> SyncReport:
        report(SyncProgress("reading", 1, 2, "a.md"))
        raise DiskFull("The disk is full")

    base.sync = sync  # type: ignore[method-assign]  # fails
    err = Terminal()
    with pytest.raises(DiskFull):
        Indexing(base, Console(out=Terminal(), err=err)).run()
    assert "reading" in err.getvalue()
    assert err.getvalue().endswith("\r\x1b[K")


def test_names_of_files_cannot_act_on_a_terminal(base: FakeBase, tmp_path: Path) -> None:
    from app.console import Console
    from app.indexing import tell_report

    evil = "\x1b]0;x\x07\x1b[2J\u202egnp.exe"
    base.steps = (SyncProgress("reading", 1, 1, evil),)
    base.report = SyncReport(unfinished=(file_state(evil, f"skipped: {evil}"),))
    out, err = Terminal(), Terminal()
    console = Console(color="never", out=out, err=err)
    report = Indexing(base, console).run()
    tell_report(report, base.status(), console)
    shown = out.getvalue() + err.getvalue().replace("\r\x1b[K", "")
    assert "gnp.exe" in shown
    assert not any(letter in shown for letter in "\x1b\x07\u202e")
