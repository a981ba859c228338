"""Laws of what goes wrong around a conversation: it is told once, in words, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.errors import DiskFull
from app.messages import ChatChosen
from app.paths import Paths
from app.screens.answering import ProblemBlock
from app.settings import Settings
from app.store.history import History
from tests.app.tui.fakes import Script, ScriptedClient, fill, make_session

Stage = Callable[..., Any]

HOLDER = """
import sys
from pathlib import Path
from app.store.locks import conversation_lock
with conversation_lock(Path(sys.argv[1]), int(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""

FULL = DiskFull("The disk is full", "/data/chats.sqlite3", "Free some space, then try again.")


@contextmanager
def held_elsewhere(locks: Path, chat_id: int) -> Iterator[int]:
    """Another process answers the chat; its pid."""
    command = [sys.executable, "-c", HOLDER, str(locks), str(chat_id)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder.pid


def words_of(it: Any) -> str:
    """What the screen shows, without its line ends."""
    return " ".join(it.text().split())


def blocks(it: Any) -> list[ProblemBlock]:
    return list(it.screen.query(ProblemBlock))


async def test_a_chat_in_the_hands_of_another_process_keeps_the_draft(
    stage: Stage, tmp_path: Path
) -> None:
    async with stage(size=(90, 30)) as it:
        await it.ask("First")
        before = it.path()
        with held_elsewhere(Paths.under(tmp_path / "folder").locks, it.screen.chat.id) as pid:
            it.prompt.insert("Second")
            old: list[ProblemBlock] = []
            for _ in range(2):
                await it.pilot.press("enter")
                await it.until(lambda old=old: blocks(it) and blocks(it) != old)
                old = blocks(it)
                await it.until(lambda: it.screen.answering.run is None)
                assert it.prompt.text == "Second"
            await it.until(lambda: f"in the hands of process {pid}" in words_of(it))
            assert words_of(it).count("Wait until it is done, or end it.") == 1
            assert "is being answered" in words_of(it)
            assert it.path() == before
            assert len(it.client.submits) == 1
            chat_id = it.screen.chat.id
            await it.until(lambda: it.session.history.draft(chat_id).text == "Second")
            await it.until(lambda: " 1 token · " in it.text())
        await it.pilot.press("enter")
        await it.until(lambda: len(it.path()) == 4 and it.screen.answering.run is None)
        assert [m.text for m in it.path()][::2] == ["First", "Second"]
        await it.until(lambda: not blocks(it))
        assert it.prompt.text == ""


async def test_an_edit_that_could_not_be_stored_is_an_edit_still(
    stage: Stage, tmp_path: Path
) -> None:
    async with stage(size=(90, 30)) as it:
        await it.ask("Old")
        with held_elsewhere(Paths.under(tmp_path / "folder").locks, it.screen.chat.id):
            await it.pilot.press("alt+up", "alt+up", "e")
            it.prompt.text = "New"
            await it.pilot.press("enter")
            await it.until(lambda: blocks(it) and it.screen.answering.run is None)
        assert it.prompt.text == "New"
        await it.until(lambda: "editing an earlier question" in it.text())
        await it.pilot.press("enter")
        await it.until(lambda: len(it.client.submits) == 2 and it.screen.answering.run is None)
        assert [m.text for m in it.path()] == ["New", "Hello there."]
        assert len(it.session.history.siblings(it.path()[0].id)) == 2


async def test_a_data_folder_that_cannot_be_made_is_named_with_a_next_step(
    stage: Stage, tmp_path: Path
) -> None:
    data = tmp_path / "folder" / "data"
    data.parent.mkdir()
    data.write_text("a file where the folder should be")
    async with stage(size=(200, 30), wait=False) as it:
        await it.until(lambda: str(data) in it.text())
        assert "Check the path." in it.text()
        assert "Traceback" not in it.text()
        it.prompt.insert("Anybody?")
        await it.pilot.press("enter")
        await it.until(lambda: any("No model is loaded" in line for line in it.told))
        assert it.prompt.text == "Anybody?"


async def test_chats_that_were_recovered_from_a_damaged_file_are_told(
    stage: Stage, tmp_path: Path
) -> None:
    session = make_session(tmp_path / "folder", ScriptedClient(), Settings())
    for number in range(20):
        fill(session, [(f"Question {number}", "word " * 400)])
    database = session.paths.database
    session.close()
    with open(database, "r+b") as file:
        file.seek(database.stat().st_size // 2)
        file.write(b"\xff" * 4096)
    async with stage() as it:
        await it.until(lambda: len(it.told) == 2)
        assert "It was kept as" in it.told[0]
        assert str(database.parent) in it.told[0]
        assert "messages were recovered" in it.told[1]
        await it.until(lambda: "Question 1" in it.text())
        await it.ask("Still there?")
        assert it.path()[-1].text == "Hello there."


@pytest.mark.parametrize("refused", [("journal",), ("journal", "finish_answer")])
async def test_a_disk_that_fills_while_an_answer_comes_is_one_block_and_the_next_send_works(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise FULL

    async with stage(size=(90, 30)) as it:
        with monkeypatch.context() as disk:
            for name in refused:
                disk.setattr(History, name, refuse)
            await it.ask("First")
        await it.until(lambda: "The disk is full" in it.text())
        assert it.text().count("The disk is full") == 1
        assert it.text().count("Free some space, then try again.") == 1
        assert "/data/chats.sqlite3" in it.text()
        await it.ask("Second")
        assert [m.text for m in it.path()][::2] == ["First", "Second"]
        assert it.path()[-1].status == "complete"
        assert it.path()[1].status == ("cut" if refused == ("journal",) else "streaming")


async def test_a_notice_of_an_answer_is_told_once(stage: Stage) -> None:
    notice = "Left out the 3 oldest turns; they did not fit."
    gate = threading.Event()
    scripts = [Script(notices=(notice,)), Script(("a", "b"), gate=gate)]
    async with stage(client=ScriptedClient(scripts)) as it:
        await it.ask("First")
        await it.until(lambda: it.told == [notice])
        chat_id = it.screen.chat.id
        await it.pilot.press("ctrl+n")
        await it.until(lambda: not it.transcript.turns)
        it.screen.post_message(ChatChosen(chat_id))
        await it.until(lambda: it.transcript.turns)
        gate.set()
        await it.ask("Second")
        assert it.told == [notice]
