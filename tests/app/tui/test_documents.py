"""Laws of documents on the screen: which base answers, what is shown of it, what an answer rests
on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.keys import of_group, shown
from app.knowledge.errors import EmbedderChanged, IndexDamaged
from app.knowledge.passage import Passage, Retrieved
from app.knowledge.places import source_lines
from app.knowledge.sources import Citation, Sources
from app.knowledge.states import SyncProgress
from app.messages import BaseAdvanced, BasesNamed
from app.screens.knowledge.bases import BaseRow, BasesPage
from app.screens.knowledge.files import FilesPage, file_words
from app.screens.knowledge.source import SourcePage
from app.screens.knowledge.sources import SourcesPage, passage_words
from app.screens.page import AskPage, ChoosePage, ConfirmPage
from app.slash import completions
from app.widgets.path_suggester import suggestion
from app.widgets.sources import UNSUPPORTED, SourceLine, citation_words, rest_words
from tests.app.fake_base import FakeIndex
from tests.app.fake_knowledge import FakeBase, FakeBases, file_state
from tests.app.tui.fakes import Script, ScriptedClient
from tests.app.tui.test_untrusted import EVIL, assert_clean

Stage = Callable[..., Any]

LEASE = "The lease ends on 31 May 2027."
TEXT = "# Flat\n\n" + "Nothing of note.\n" * 40 + LEASE + "\n" + "Nothing more.\n" * 40


def lease(name: str = "lease.md", reason: str = "words .8") -> Passage:
    start = TEXT.index(LEASE)
    return Passage(
        Path("/docs") / name,
        name,
        LEASE,
        start,
        start + len(LEASE),
        first_line=43,
        last_line=43,
        reason=reason,
        hidden_characters=7,
    )


class FakeWatch:
    """Runs nothing; says what was asked of it."""

    started: list[str]
    stopped: list[str]

    def __init__(self, base: FakeBase, report: Any, progress: Any, notice: Any) -> None:
        self.name, self.report, self.progress = base.name, report, progress

    def start(self) -> None:
        type(self).started.append(self.name)

    def stop(self) -> None:
        type(self).stopped.append(self.name)


@pytest.fixture(autouse=True)
def watch(monkeypatch: pytest.MonkeyPatch) -> type[FakeWatch]:
    monkeypatch.setattr(FakeWatch, "started", [], raising=False)
    monkeypatch.setattr(FakeWatch, "stopped", [], raising=False)
    monkeypatch.setattr("app.knowledge.watch.Watch", FakeWatch)
    return FakeWatch


@pytest.fixture
def base(tmp_path: Path) -> FakeBase:
    return FakeBase(
        "work",
        [tmp_path],
        states=[file_state("lease.md"), file_state("scan.pdf", "no text (needs OCR)", 0)],
        found=Retrieved((lease(),), unused=(lease("other.md"),)),
        index=FakeIndex({"lease.md": TEXT}),
    )


@pytest.fixture(autouse=True)
def bases(base: FakeBase, monkeypatch: pytest.MonkeyPatch) -> FakeBases:
    bases = FakeBases(base)
    monkeypatch.setattr("app.startup.knowledge_bases", lambda _paths: bases)
    # A small collection is given whole, without a search: these are about searches.
    monkeypatch.setattr("app.knowledge.collection.passages", lambda *_: ())
    return bases


async def open_bases(it: Any) -> BasesPage:
    await it.pilot.press("ctrl+l")
    await it.until(lambda: isinstance(it.app.screen, BasesPage) and it.app.screen.rows)
    page: BasesPage = it.app.screen
    return page


async def use_work(it: Any) -> None:
    it.prompt.insert("/kb work")
    await it.pilot.press("enter")
    await it.until(lambda: it.screen.knowledge.name == "work")


async def test_a_base_is_chosen_answers_and_is_watched_until_it_is_left(
    stage: Stage, base: FakeBase, watch: type[FakeWatch]
) -> None:
    client = ScriptedClient([Script((f"{LEASE} [1]",))] * 3)
    async with stage(client=client) as it:
        await open_bases(it)
        await it.pilot.press("down", "enter")
        await it.until(lambda: "documents: work" in it.text())
        await it.until(lambda: watch.started == ["work"])
        await it.ask("When does the lease end?")
        assert base.questions[0][0] == "When does the lease end?"
        await it.until(lambda: "[1] lease.md:43" in it.text())
        await open_bases(it)
        await it.pilot.press("up", "enter")
        await it.until(lambda: "documents: work" not in it.text())
        await it.until(lambda: watch.stopped == ["work"])
        await it.ask("And now?", turns=4)
        assert len(base.questions) == 1


async def test_a_chat_goes_on_with_the_base_of_its_last_question(
    stage: Stage, watch: type[FakeWatch]
) -> None:
    async with stage(chats=[[("Q", "A")]]) as it:
        await use_work(it)
        await it.ask("When does the lease end?")
        with_base = it.screen.chat.id
        await it.pilot.press("ctrl+n")
        await it.until(lambda: it.screen.chat is None)
        assert it.screen.knowledge.name == "work"
        from app.messages import ChatChosen

        it.screen.post_message(ChatChosen(1))
        await it.until(lambda: it.screen.chat and it.screen.chat.id == 1)
        await it.until(lambda: it.screen.knowledge.name is None)
        it.screen.post_message(ChatChosen(with_base))
        await it.until(lambda: it.screen.knowledge.name == "work")


async def test_an_unknown_base_is_told_and_changes_nothing(stage: Stage) -> None:
    async with stage() as it:
        await use_work(it)
        it.prompt.insert("/kb wrok")
        await it.pilot.press("enter")
        await it.until(lambda: any("wrok" in line for line in it.told))
        assert it.screen.knowledge.name == "work"


async def test_sources_stand_under_an_answer_and_open_in_their_document(stage: Stage) -> None:
    client = ScriptedClient([Script((f"{LEASE} [1] It costs 17 dragons [1].",))])
    async with stage(size=(120, 40), client=client) as it:
        await use_work(it)
        await it.ask("When does the lease end?")
        await it.until(lambda: UNSUPPORTED in it.text())
        await it.until(lambda: "1 found and not read · f3 shows them" in it.text())
        await it.pilot.click(SourceLine)
        await it.until(lambda: isinstance(it.app.screen, SourcePage) and it.app.screen.view)
        await it.until(lambda: LEASE in it.text())
        view = it.app.screen.view
        assert view.before + view.passage + view.after == TEXT
        await it.until(lambda: "Nothing of note." in it.text() and "Nothing more." in it.text())
        await it.pilot.press("escape", "f3")
        await it.until(lambda: isinstance(it.app.screen, SourcesPage))
        await it.until(lambda: "cited" in it.text() and "found, not read" in it.text())
        assert "other.md:43" in it.text()


def test_the_screen_names_places_as_the_command_line_does() -> None:
    line = Citation(1, "a.md:1-90", "/docs/a.md", None, 40, 41, 0, 9, supported=True)
    page = Citation(2, "a.pdf p. 3-4", "/docs/a.pdf", 4, None, None, 0, 9, True, named=False)
    for one, place in ((line, "[1] a.md:40-41"), (page, "[2] a.pdf p. 4")):
        shown = citation_words(one).plain
        assert shown == next(source_lines([one]))
        assert shown.startswith(place)


async def test_a_document_that_changed_shows_the_passage_as_it_was_read(
    stage: Stage, base: FakeBase
) -> None:
    client = ScriptedClient([Script((f"{LEASE} [1]",))])
    async with stage(client=client) as it:
        await use_work(it)
        await it.ask("When does the lease end?")
        for texts, words in (({"lease.md": "Other."}, "has changed"), ({}, "not in the knowledge")):
            base.index = FakeIndex(texts)
            await it.pilot.press("f3")
            await it.until(lambda: isinstance(it.app.screen, SourcesPage))
            await it.pilot.press("enter")
            await it.until(lambda words=words: words in it.text() and LEASE in it.text())
            await it.pilot.press("escape", "escape")
            await it.until(lambda: it.app.screen is it.screen)


async def test_a_turn_without_documents_says_so(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Hi.")
        await it.pilot.press("alt+up", "o")
        await it.until(lambda: any("no sources" in line for line in it.told))


async def test_a_sync_shows_how_far_it_is_and_stops_when_asked_again(
    stage: Stage, base: FakeBase
) -> None:
    base.gate = threading.Event()
    base.steps = tuple(SyncProgress("reading", n, 1000, "a.md") for n in (410, 420, 430))
    async with stage(size=(120, 40)) as it:
        await open_bases(it)
        await it.pilot.press("down", "s")
        await it.until(lambda: "reading 41 % · 410 of 1,000" in it.text())
        await it.pilot.press("s")
        base.gate.set()
        await it.until(lambda: not it.screen.knowledge.progress)
        await it.until(lambda: "in step at" in it.text())
        assert base.syncs == [(False, False)]


async def test_what_another_process_does_is_followed_while_the_page_is_open(
    stage: Stage, base: FakeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.screens.knowledge.bases.LOOK_S", 0.05)
    base.is_syncing = True
    async with stage(size=(120, 40)) as it:
        await open_bases(it)
        await it.until(lambda: "another process reads it now" in it.text())
        base.is_syncing = False
        await it.until(lambda: "in step at" in it.text())


async def test_what_a_base_holds_is_shown_when_its_words_are_there(
    stage: Stage, base: FakeBase
) -> None:
    base.gate = threading.Event()
    base.steps = tuple(SyncProgress("embedding", n, 9, is_searchable=True) for n in (1, 2))
    files, base.states = base.states, []
    async with stage(size=(120, 40)) as it:
        await open_bases(it)
        await it.until(lambda: "0 files" in it.text())
        base.states = files
        await it.pilot.press("down", "s")
        await it.until(lambda: "1 file " in it.text() and "learning meaning" in it.text())
        base.gate.set()


class SecondGate(threading.Event):
    """The first to come is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.has_passed = False

    def wait(self, timeout: float | None = None) -> bool:
        passes, self.has_passed = not self.has_passed, True
        return passes or super().wait(timeout)


async def test_a_count_is_shown_when_it_is_known_however_soon_it_comes(
    stage: Stage, base: FakeBase
) -> None:
    base.gate = SecondGate()
    base.steps = tuple(SyncProgress("embedding", 0, total) for total in (0, 9_000, 9_000))
    async with stage(size=(120, 40)) as it:
        await open_bases(it)
        await it.pilot.press("down", "s")
        await it.until(lambda: "learning meaning 0 % · 0 of 9,000" in it.text())
        base.gate.set()


async def test_a_base_that_cannot_be_opened_is_told_wherever_it_is_asked_for(
    stage: Stage, bases: FakeBases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> FakeBase:
        raise IndexDamaged("The index is damaged", "x.sqlite3: no database.")

    monkeypatch.setattr(bases, "open", broken)
    async with stage(size=(120, 40)) as it:
        await open_bases(it)
        await it.until(lambda: "The index is damaged. x.sqlite3: no database." in it.text())
        assert "s makes it again" in it.text()
        await it.pilot.press("down", "t")
        await it.until(lambda: any("index is damaged" in line for line in it.told))
        await it.pilot.press("f")
        await it.until(lambda: isinstance(it.app.screen, FilesPage))
        await it.until(lambda: "they cannot be read" in it.text())
        await it.until(lambda: "The index is damaged." in it.text())


async def test_keys_stand_beside_their_labels_on_a_narrow_screen(stage: Stage) -> None:
    async with stage(size=(46, 15)) as it:
        await open_bases(it)
        labels = [f"{shown(key.keys)} {key.label}" for key in of_group("bases")]
        await it.until(lambda: all(label in it.text() for label in labels))


@pytest.mark.parametrize("kind", [EmbedderChanged, IndexDamaged])
async def test_what_must_be_made_again_is_asked_first(
    stage: Stage, base: FakeBase, kind: type[Any]
) -> None:
    base.trouble = kind("It does not fit.", "Why.", "Again?")
    async with stage(size=(120, 40)) as it:
        await open_bases(it)
        await it.pilot.press("down", "s")
        await it.until(lambda: isinstance(it.app.screen, ConfirmPage))
        assert len(base.syncs) == 1
        await it.pilot.press("y")
        await it.until(lambda: len(base.syncs) == 2)
        assert base.syncs[1] == (False, kind is EmbedderChanged)


async def test_a_new_base_is_made_from_a_folder_and_read(
    stage: Stage, bases: FakeBases, tmp_path: Path
) -> None:
    folder = tmp_path / "My documents"
    folder.mkdir()
    async with stage(size=(120, 40)) as it:
        await open_bases(it)
        await it.pilot.press("n")
        await it.until(lambda: isinstance(it.app.screen, AskPage))
        it.app.screen.query_one("Input").value = str(folder)
        await it.pilot.press("enter")
        await it.until(lambda: "A name for" in it.text())
        await it.pilot.press("enter")
        await it.until(lambda: "My documents" in bases.bases)
        await it.until(lambda: bases.bases["My documents"].syncs == [(False, False)])
        await it.until(lambda: isinstance(it.app.screen, BasesPage))
        await it.until(lambda: "My documents" in it.text())
        await it.pilot.press("enter")
        await it.until(lambda: it.screen.knowledge.name == "My documents")


async def test_a_folder_or_a_name_that_cannot_be_is_asked_for_again(
    stage: Stage, bases: FakeBases, tmp_path: Path
) -> None:
    nowhere = tmp_path / "nowhere"
    async with stage(size=(120, 40)) as it:
        await open_bases(it)
        await it.pilot.press("n")
        for typed in (nowhere, tmp_path, "work", "../x", "b"):
            await it.until(lambda: isinstance(it.app.screen, AskPage))
            page = it.app.screen
            page.query_one("Input").value = str(typed)
            await it.pilot.press("enter")
            await it.until(lambda page=page: it.app.screen is not page)
        await it.until(lambda: bases.names() == ["b", "work"])
        told = " ".join(it.told)
        for said in (f"no folder {nowhere}", "“work” already", "called “../x”"):
            assert said in told


async def test_forgetting_a_base_asks_and_leaves_it(
    stage: Stage, bases: FakeBases, watch: type[FakeWatch]
) -> None:
    async with stage() as it:
        await use_work(it)
        await open_bases(it)
        await it.pilot.press("delete")
        await it.until(lambda: isinstance(it.app.screen, ConfirmPage))
        await it.pilot.press("enter")
        await it.until(lambda: isinstance(it.app.screen, BasesPage))
        assert bases.names() == ["work"]
        await it.pilot.press("delete", "y")
        await it.until(lambda: bases.names() == [])
        assert it.screen.knowledge.name is None
        assert watch.stopped == ["work"]


async def take_out(it: Any, answer: str) -> None:
    await it.pilot.press("t")
    await it.until(lambda: isinstance(it.app.screen, ConfirmPage))
    await it.pilot.press(answer)
    await it.until(lambda: isinstance(it.app.screen, BasesPage))


async def test_a_folder_that_is_taken_out_is_asked_for_and_stays_on_the_disk(
    stage: Stage, base: FakeBase, tmp_path: Path
) -> None:
    (tmp_path / "lease.md").write_text(LEASE)
    async with stage(size=(100, 40)) as it:
        await open_bases(it)
        assert "t take out" in it.text()
        await it.pilot.press("t")  # no base is highlighted
        await it.pilot.press("down")
        await take_out(it, "n")
        assert (base.folders, base.syncs) == ([tmp_path], [])
        await take_out(it, "y")
        await it.until(lambda: base.syncs == [(False, False)])
        assert base.folders == []
        await it.until(lambda: "no folder" in it.text())
        assert (tmp_path / "lease.md").read_text() == LEASE
        await it.pilot.press("t")
        await it.until(lambda: "work has no folder." in it.told)


async def test_of_several_folders_one_is_chosen(
    stage: Stage, base: FakeBase, tmp_path: Path
) -> None:
    others = [tmp_path / "a", tmp_path / "b"]
    base.folders = [tmp_path, *others]
    async with stage(size=(100, 40)) as it:
        await open_bases(it)
        await it.pilot.press("down", "t")
        await it.until(lambda: isinstance(it.app.screen, ChoosePage))
        await it.pilot.press("down", "enter")
        await it.until(lambda: isinstance(it.app.screen, ConfirmPage))
        await it.pilot.press("y")
        await it.until(lambda: base.folders == [tmp_path, others[1]])


async def test_other_folders_make_a_sync_that_runs_begin_again(
    stage: Stage, base: FakeBase
) -> None:
    base.gate = threading.Event()
    base.steps = tuple(SyncProgress("reading", n, 1000, "a.md") for n in (410, 420, 430))
    async with stage(size=(100, 40)) as it:
        await open_bases(it)
        await it.pilot.press("down", "s")
        await it.until(lambda: "reading 41 %" in it.text())
        await take_out(it, "y")
        await it.until(lambda: base.folders == [])
        base.gate.set()
        await it.until(lambda: len(base.syncs) == 2)


async def test_a_watch_reads_other_folders_itself(
    stage: Stage, base: FakeBase, watch: type[FakeWatch]
) -> None:
    async with stage(size=(100, 40)) as it:
        await use_work(it)
        await open_bases(it)
        await take_out(it, "y")
        await it.until(lambda: base.folders == [])
        await it.pilot.pause()
        assert base.syncs == []


async def test_names_of_bases_are_completed(stage: Stage, bases: FakeBases) -> None:
    for name in ("world", "Garden"):
        bases.create(name)
    async with stage(size=(100, 40)) as it:
        it.prompt.insert("/kb ")
        await it.until(lambda: all(name in it.text() for name in ("Garden", "work", "world")))
        it.prompt.insert("WO")
        await it.until(lambda: "Garden" not in it.text())
        await it.pilot.press("tab")
        assert it.prompt.text == "/kb work"
        await it.pilot.press("enter")
        await it.until(lambda: it.screen.knowledge.name == "work")
        bases.create("later")
        it.prompt.insert("/kb l")
        await it.until(lambda: "later" in it.text())
        it.prompt.insert("x")
        await it.until(lambda: "later" not in it.text())


async def test_an_export_from_the_list_never_replaces_a_file(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    async with stage() as it:
        await open_bases(it)
        await it.pilot.press("down")
        for said in ("Written to", "nothing was written"):
            await it.pilot.press("x")
            await it.until(lambda: isinstance(it.app.screen, AskPage))
            it.app.screen.query_one("Input").value = str(file)
            await it.pilot.press("enter")
            await it.until(lambda said=said: any(said in line for line in it.told))
        assert file.read_text() == "{}\n"


async def test_files_that_were_not_indexed_come_first_and_typing_finds_others(
    stage: Stage, base: FakeBase
) -> None:
    base.states = [*(file_state(f"n{i}.md") for i in range(300)), base.states[1]]
    async with stage(size=(100, 40)) as it:
        await open_bases(it)
        await it.pilot.press("down", "f")
        await it.until(lambda: isinstance(it.app.screen, FilesPage) and it.app.screen.files)
        await it.until(lambda: "scan.pdf" in it.text() and "needs OCR" in it.text())
        await it.until(lambda: "101 files more" in it.text())
        await it.pilot.press("2", "9", "9")
        await it.until(lambda: "n299.md" in it.text() and "scan.pdf" not in it.text())


def test_behind_a_long_name_nothing_that_matters_is_cut_off() -> None:
    name = "文" * 30 + ".pdf"
    assert file_words(file_state(name, "encrypted", 0)).plain.splitlines() == [
        name,
        "    encrypted",
    ]
    shown = passage_words(1, lease(name), is_doubtful=True).plain.splitlines()
    assert f"    {UNSUPPORTED}" in shown


class FakeEmbedder:
    def __init__(self) -> None:
        self.held = 0

    def pause(self) -> None:
        self.held += 1

    def resume(self) -> None:
        self.held -= 1

    def close(self) -> None:
        self.held = 0


async def test_nothing_is_embedded_while_an_answer_is_written(
    stage: Stage, bases: FakeBases
) -> None:
    embedder = bases.embedder = FakeEmbedder()  # type: ignore[assignment]
    gate = threading.Event()
    async with stage(client=ScriptedClient([Script(("One. ", "Two."), gate=gate)])) as it:
        await use_work(it)
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: embedder.held == 1)
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        assert embedder.held == 0


async def test_names_paths_and_texts_of_documents_are_only_text(
    stage: Stage, base: FakeBase
) -> None:
    evil = EVIL.replace("/", "-")
    text = f"{EVIL}\n{LEASE}\n{EVIL}"
    start = text.index(LEASE)
    passage = Passage(Path("/docs") / evil, evil, LEASE, start, start + len(LEASE), (EVIL,))
    base.folders = [Path("/docs") / evil]
    base.states = [file_state(evil, f"skipped: {evil}")]
    base.found = Retrieved((passage,), unused=(passage,), reason=EVIL)
    base.index = FakeIndex({evil: text})
    base.steps = (SyncProgress("reading", 1, 2, evil),)
    client = ScriptedClient([Script((f"{LEASE} [1]",))])
    async with stage(size=(120, 60), client=client) as it:
        await use_work(it)
        await it.ask("When does the lease end?")
        await it.until(lambda: "[1] [bold red]" in it.text())
        assert_clean(it)
        for keys, kind in (
            (("f3",), SourcesPage),
            (("enter",), SourcePage),
            (("escape", "escape", "ctrl+l"), BasesPage),
            (("f",), FilesPage),
            (("enter",), SourcePage),
        ):
            await it.pilot.press(*keys)
            await it.until(lambda kind=kind: isinstance(it.app.screen, kind))
            await it.until(lambda: "[bold red]" in it.text())
            assert_clean(it)


async def test_news_of_documents_when_the_program_ends_are_shown_nowhere(stage: Stage) -> None:
    """Widgets go before the screen that they stand on, and messages still come."""
    async with stage() as it:
        screen = it.screen
        page = BasesPage(screen.bases, screen.knowledge, {})
        page.show((BaseRow("work"),))
        page.advanced("work")
        await screen.query("Footer, TitleBar, Completions").remove()
        screen.knowledge.advanced(BaseAdvanced("work", SyncProgress("reading", 1, 2)))
        screen.bars.show_title()
        screen.bars.show_footer()
        screen.bars.show_engine()
        screen.completing.named(BasesNamed(("work",)))


def test_what_was_read_and_not_cited_is_counted() -> None:
    one = Citation(1, "a", "/a", None, 1, 1, 0, 9, True)
    two = (lease(), lease("b.md"))
    asked = Sources("work", passages=two, unused=two)
    assert rest_words(asked, (one,), "f3") == (
        "1 more passage of work was read, 2 found and not read · f3 shows them"
    )
    assert rest_words(Sources("work", passages=two), (), "f3") == (
        "no passage cited; 2 passages of work were read · f3 shows them"
    )
    assert rest_words(Sources("work", passages=two[:1]), (one,), "f3") == ""
    assert rest_words(Sources("work", is_refused=True), (), "f3") == ""
    assert rest_words(None, (), "f3") == ""


@pytest.mark.parametrize(
    ("draft", "becomes"),
    [
        ("/k", ["/kb "]),
        ("/kb", ["/kb "]),
        ("/kb ", ["/kb a", "/kb a b"]),
        ("/KB  A", ["/KB a", "/KB a b"]),
        ("/kb a b", ["/kb a b"]),
        ("/kb x", []),
        ("/stats ", []),
        ("//kb ", []),
        ("/kb\n", []),
        ("kb ", []),
    ],
)
def test_a_draft_becomes_only_what_begins_like_it(draft: str, becomes: list[str]) -> None:
    assert [one.draft for one in completions(draft, {"kb": ("a", "a b")})] == becomes


def test_a_path_is_completed_with_folders_first(tmp_path: Path) -> None:
    for name in ("beta", ".hidden", "bad\x1bname"):
        (tmp_path / name).mkdir()
    (tmp_path / "alpha.md").touch()
    assert suggestion(f"{tmp_path}/b") == f"{tmp_path}/beta/"
    assert suggestion(f"{tmp_path}/") == f"{tmp_path}/beta/"
    assert suggestion(f"{tmp_path}/a") == f"{tmp_path}/alpha.md"
    assert suggestion(f"{tmp_path}/bad") is None
    assert suggestion(f"{tmp_path}/.h") == f"{tmp_path}/.hidden/"
    assert suggestion(f"{tmp_path}/none/x") is None
    assert suggestion("") is None
