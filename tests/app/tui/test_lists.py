"""Laws of the chat list, commands, keys and pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import keys, slash
from app.application import LocalchatApp
from app.screens.help import help_lines
from app.screens.models import fit_words
from app.settings import EngineSettings, Settings
from app.widgets.bars import LoadBar, UndoBar
from app.widgets.sidebar import Sidebar
from engine.messages import State
from tests.app.tui.fakes import LOADED, Script, ScriptedClient

Stage = Callable[..., Any]


async def type_line(it: Any, text: str) -> None:
    it.prompt.insert(text)
    await it.pilot.press("enter")
    await it.until(lambda: it.prompt._enter_timer is None)
    await it.pilot.pause()


async def test_chats_are_listed_searched_and_opened(stage: Stage) -> None:
    chats = [[("Tax letter", "A")], [("Regex", "find me here")]]
    async with stage(chats=chats) as it:
        await it.until(lambda: "Tax letter" in it.text() and "Regex" in it.text())
        assert "today" in it.text()
        await it.pilot.press("ctrl+f", *"find")
        await it.until(lambda: "Tax letter" not in it.text())
        await it.pilot.press("enter")
        await it.until(lambda: it.screen.chat is not None and it.screen.chat.title == "Regex")
        assert it.screen.query_one(Sidebar).query_text == ""


async def test_another_process_changes_the_list(stage: Stage, tmp_path: Path) -> None:
    from tests.app.tui.fakes import fill, make_session

    async with stage() as it:
        other = make_session(tmp_path / "folder", ScriptedClient(), Settings())
        fill(other, [("From another pane", "A")])
        await it.until(lambda: "From another pane" in it.text())
        other.close()


async def test_a_deleted_chat_can_be_brought_back(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Dear diary")
        chat_id = it.screen.chat.id
        await it.pilot.press("ctrl+d")
        await it.until(lambda: "Delete “Dear diary”?" in it.text())
        await it.pilot.press("enter")
        await it.until(lambda: it.app.screen is it.screen)
        assert it.screen.chat.id == chat_id
        await it.pilot.press("ctrl+d", "y")
        await it.until(lambda: it.screen.chat is None)
        assert "ctrl+z brings it back" in it.text()
        await it.pilot.press("ctrl+z")
        await it.until(lambda: it.screen.chat is not None and it.screen.chat.id == chat_id)
        await it.until(lambda: "Hello there." in it.text())
        assert it.client.dropped == []


async def test_after_the_time_for_undoing_a_chat_is_purged(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Dear diary")
        await it.pilot.press("ctrl+d", "y")
        await it.until(lambda: it.screen.chats.can_undo)
        it.screen.query_one(UndoBar).left = 1
        await it.until(lambda: it.client.dropped)
        assert it.session.history.pending_deletes() == []
        await it.pilot.press("ctrl+z")
        assert it.screen.chat is None


@pytest.mark.parametrize("name", [one.name for one in slash.SLASHES])
async def test_every_command_runs_in_an_empty_and_in_a_full_chat(
    stage: Stage, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # `/export` writes where the person stands
    async with stage() as it:
        await type_line(it, f"/{name}")
        await it.pilot.press("escape", "escape")
        it.prompt.clear_draft()
        await it.until(lambda: it.app.screen is it.screen)
        if it.screen.session is it.screen.stored_session:
            await it.ask("Q")
            await type_line(it, f"/{name}")
            await it.pilot.pause()


async def test_an_unknown_command_names_the_nearest_and_stays(stage: Stage) -> None:
    async with stage() as it:
        await type_line(it, "/modle x")
        await it.until(lambda: any("/model?" in line for line in it.told))
        assert it.prompt.text == "/modle x"
        assert it.path() == []


async def test_commands_complete_while_typing(stage: Stage) -> None:
    async with stage() as it:
        await it.pilot.press(*"/ex")
        await it.until(lambda: "/export" in it.text())
        await it.pilot.press("tab")
        assert it.prompt.text == "/export "


async def test_a_system_prompt_starts_a_chat_of_its_own(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Q")
        first = it.screen.chat.id
        await type_line(it, "/system Be short.")
        await it.until(lambda: it.screen.chat and it.screen.chat.id != first)
        assert "Be short." in it.text()
        await it.ask("Q2", turns=2)
        assert it.client.submits[-1].messages[0].content == "Be short."


async def test_set_changes_what_the_next_answer_is_sampled_with(stage: Stage) -> None:
    async with stage() as it:
        await type_line(it, "/set temperature=0.25")
        await it.until(lambda: any("temperature=0.25" in line for line in it.told))
        await it.ask("Q")
        assert it.client.submits[-1].sampling.temperature == 0.25
        await type_line(it, "/set temprature=1")
        await it.until(lambda: any("temperature" in line for line in it.told[-1:]))


async def test_export_writes_once_and_never_over_a_file(stage: Stage, tmp_path: Path) -> None:
    target = tmp_path / "chat.json"
    async with stage() as it:
        await it.ask("Q")
        await type_line(it, f"/export {target}")
        await it.until(target.exists)
        await it.until(lambda: any("Written" in line for line in it.told))
        document = json.loads(target.read_text())
        assert [one["text"] for one in document["messages"]] == ["Q", "Hello there."]
        await type_line(it, f"/export {target}")
        await it.until(lambda: len(it.told) == 2)
        assert json.loads(target.read_text()) == document


async def test_export_and_tree_hold_every_branch(stage: Stage, tmp_path: Path) -> None:
    scripts = [Script((text,)) for text in ("One.", "Two.", "Three.", "Four.")]
    async with stage(client=ScriptedClient(scripts)) as it:
        await it.ask("First")
        await it.ask("Second")
        first = it.path()[0].id
        it.screen.answering.regenerate(first)
        await it.until(lambda: "Three." in it.text() and it.screen.answering.run is None)
        it.screen.answering.edit(first, "Edited")
        await it.until(lambda: "Four." in it.text() and it.screen.answering.run is None)
        await type_line(it, f"/export {tmp_path / 'chat.md'}")
        await it.until(lambda: any("Written" in line for line in it.told))
        written = (tmp_path / "chat.md").read_text()
        for text in ("First", "One.", "Second", "Two.", "Three.", "Edited", "Four."):
            assert f"\n\n{text}\n" in written
        await type_line(it, "/tree")
        await it.until(lambda: it.app.screen is not it.screen)
        lines = [" ".join(line.strip(" │").split()) for line in it.text().splitlines()]
        start = lines.index("1 You 1/2: First")
        assert lines[start : start + 7] == [
            "1 You 1/2: First",
            "2 Answer 1/2: One.",
            "3 You: Second",
            "4 Answer: Two.",
            "5 Answer 2/2: Three.",
            "▸ 6 You 2/2: Edited",
            "▸ 7 Answer: Four.",
        ]


async def test_a_private_chat_leaves_nothing_in_the_store(stage: Stage) -> None:
    async with stage() as it:
        await type_line(it, "/private")
        await it.until(lambda: "only in memory" in it.text())
        await it.ask("secret")
        assert it.screen.stored_session.history.chats() == []
        await it.pilot.press("ctrl+n")
        await it.until(lambda: it.client.dropped)
        assert it.screen.session is it.screen.stored_session


async def test_rebound_keys_act_and_are_shown(stage: Stage) -> None:
    settings = Settings(keys={"chat.new": "ctrl+y", "prompt.send": "ctrl+s"})
    async with stage(settings=settings) as it:
        assert "ctrl+y new" in it.text()
        it.prompt.insert("Q")
        await it.pilot.press("ctrl+s")
        await it.until(lambda: len(it.path()) == 2 and it.screen.answering.run is None)
        await it.pilot.press("ctrl+n")
        await it.pilot.pause()
        assert it.screen.chat is not None
        await it.pilot.press("ctrl+y")
        await it.until(lambda: it.screen.chat is None)


async def test_an_unknown_action_in_the_settings_is_told(stage: Stage) -> None:
    async with stage(settings=Settings(keys={"chat.nwe": "ctrl+y"})) as it:
        await it.until(lambda: any("chat.new?" in line for line in it.told))


def test_help_names_every_key_and_command() -> None:
    text = "\n".join(f"{name} {value}" for name, value in help_lines({"chat.new": "ctrl+y"}))
    for key in keys.KEYS:
        assert key.help in text
    for command in slash.SLASHES:
        assert f"/{command.name}" in text
    assert "ctrl+y" in text


def test_no_key_has_the_bytes_of_another() -> None:
    used = [one for key in keys.KEYS for one in key.keys.split(",")]
    assert not {"ctrl+m", "ctrl+i", "ctrl+h", "ctrl+left_square_bracket"} & set(used)
    assert len(set(used)) == len(used)


async def test_the_palette_holds_keys_and_commands(stage: Stage) -> None:
    async with stage() as it:
        app: LocalchatApp = it.app
        titles = [command.title for command in app.get_system_commands(it.screen)]
        assert "Start a new chat" in titles
        assert "/stats" in titles
        await it.pilot.press("ctrl+p")
        await it.until(lambda: app.screen is not it.screen)


async def test_models_are_listed_with_their_fit(stage: Stage, monkeypatch: Any) -> None:
    from engine.library import ModelEntry, default_folders

    entries = [
        ModelEntry("small.gguf", Path("/m/small.gguf"), "llama", "Q4_1", 98_000_000, 8192, True,
                   355_000_000, 8192, "models folder"),
        ModelEntry("big.gguf", Path("/m/big.gguf"), "qwen3", "Q8_0", 9 * 10**9, 40960, False,
                   12 * 10**9, 0, "LM Studio"),
    ]  # fmt: skip
    searched: list[Any] = []

    def find(folders: Any) -> list[ModelEntry]:
        searched.append(folders)
        return entries

    monkeypatch.setattr("engine.library.find_models", find)
    async with stage(size=(120, 40)) as it:
        await it.pilot.press("ctrl+k")
        await it.until(lambda: "big.gguf" in it.text())
        words = " ".join(it.text().replace("│", " ").split())
        assert searched == [default_folders(it.session.paths.models)]
        assert "does not fit: needs 12.0 GB" in words
        assert "fits with 8,192 tokens" in words
        await it.pilot.press("escape")
        await it.until(lambda: it.app.screen is it.screen)


async def test_a_chosen_model_is_loaded_and_named_in_the_title(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.library import ModelEntry

    entries = [
        ModelEntry("SmolLM2.gguf", Path(LOADED.path), "llama", "Q4_1", 98_000_000, 8192, True,
                   355_000_000, 8192, "models folder"),
        ModelEntry("Other-4B-Q8_0.gguf", Path("/m/Other-4B-Q8_0.gguf"), "qwen3", "Q8_0", 10**9,
                   40960, True, 12 * 10**8, 32768, "LM Studio"),
    ]  # fmt: skip
    monkeypatch.setattr("engine.library.find_models", lambda _: entries)
    client = ScriptedClient()
    async with stage(client=client) as it:
        await it.ask("Q")
        monkeypatch.setattr("app.session.choose_model", lambda model, *_: Path(model))
        client.model = replace(
            LOADED, name="Other-4B-Q8_0.gguf", path=str(entries[1].path), quantization="Q8_0",
            ctx=32768,
        )  # fmt: skip
        client.load_gate = threading.Event()
        await it.pilot.press("ctrl+k")
        await it.until(lambda: "Other-4B" in it.text())
        await it.pilot.press("down", "enter")
        await it.until(lambda: it.screen.query_one(LoadBar).load is not None)
        await it.until(lambda: "68 MB of 107 MB" in it.text())
        client.load_gate.set()
        await it.until(lambda: it.screen.query_one(LoadBar).load is None)
        assert client.load_paths[1:] == ["/m/Other-4B-Q8_0.gguf"]
        await it.until(lambda: "Other 4B Q8_0 · 32k · fits" in it.text().splitlines()[0])
        assert [turn.message.text for turn in it.transcript.turns] == ["Q", "Hello there."]
        await it.ask("Next")
        assert it.path()[-1].info.model == "Other-4B-Q8_0.gguf"


async def test_enter_chooses_nothing_where_there_is_no_model(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.library.find_models", lambda _: [])
    async with stage() as it:
        await it.pilot.press("ctrl+k")
        await it.until(lambda: "no model was found" in it.text())
        await it.pilot.press("enter")
        await it.pilot.pause()
        assert it.app.screen is not it.screen
        await it.pilot.press("escape")
        await it.until(lambda: it.app.screen is it.screen)
        assert len(it.client.loads) == 1


async def test_the_footer_shows_what_the_engine_last_said(stage: Stage) -> None:
    def last(it: Any) -> str:
        line: str = it.text().rstrip().splitlines()[-1]
        return line.rstrip()

    async with stage() as it:
        await it.until(lambda: last(it).endswith("KV 12 MB · 2 threads"))
        it.client.memory = State(30_000_000, 5_000_000, 200_000_000, 1)
        await it.until(lambda: last(it).endswith("KV 35 MB · 1 thread"))
        it.client.memory = replace(it.client.memory, tuning=True)
        await it.until(lambda: last(it).endswith("KV 35 MB · 1 thread · tuning"))


@pytest.mark.parametrize(("fits", "said"), [(True, "8k · fits"), (False, "8k · does not fit")])
async def test_the_title_says_whether_the_estimate_before_the_load_fitted(
    stage: Stage, fits: bool, said: str
) -> None:
    settings = Settings(engine=EngineSettings(ignore_memory=True))
    client = ScriptedClient(model=replace(LOADED, fits=fits))
    async with stage(client=client, settings=settings) as it:
        assert it.text().splitlines()[0].rstrip().endswith(said)


def test_the_model_in_use_need_not_fit_beside_itself() -> None:
    from engine.library import ModelEntry

    entry = ModelEntry("a.gguf", Path("/m/a.gguf"), "llama", "Q4_1", 9 * 10**9, 8192, False,
                       12 * 10**9, 512, "models folder")  # fmt: skip
    assert fit_words(entry, None)[0] == "does not fit: needs 12.0 GB"
    assert fit_words(entry, LOADED)[0] == "fits with 8,192 tokens"
    assert fit_words(entry, replace(LOADED, fits=False))[0] == "does not fit: needs 12.0 GB"


async def test_the_store_never_waits_for_the_screen(stage: Stage) -> None:
    """Else a screen that waits for the store would wait for ever."""
    async with stage() as it:
        it.session.history.new_chat(title="From elsewhere")
        it.screen.chats._version = -1
        it.screen.chats.poll()
        it.screen.work.finish()  # the screen stands still until the store has looked
        assert it.screen.chats._version != -1
