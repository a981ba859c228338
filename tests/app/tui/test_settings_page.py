"""Laws of the settings page: what is changed there holds now and at the next start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.paths import Paths
from app.screens.page import AskPage
from app.screens.setting_changes import kept_words
from app.screens.settings import SettingsPage, is_one_line, written
from app.settings import ChatSettings, EngineSettings, Settings, load_settings
from app.themes import LIGHT
from app.widgets import words
from tests.app.tui.fakes import Script, ScriptedClient

Stage = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The program's settings file, with a person's comments."""
    file = Paths.under(tmp_path / "folder").ensure().config_file
    file.write_text("# mine\ntheme = 'dark'  # for my eyes\n\n[sampling]\ntop_k = 7 # seven\n")
    return file


async def change(it: Any, key: str, text: str) -> None:
    """As a person does: the page, the setting's row, the new value."""
    await it.pilot.press("ctrl+o")
    await it.until(lambda: isinstance(it.app.screen, SettingsPage))
    options = it.app.screen.query_one("OptionList")
    options.highlighted = options.get_option_index(key)
    await it.pilot.press("enter")
    await it.until(lambda: isinstance(it.app.screen, AskPage))
    it.app.screen.query_one("Input").value = text
    await it.pilot.press("enter")
    await it.until(lambda: it.app.screen is it.screen)


async def test_a_change_holds_now_and_at_the_next_start_and_keeps_comments(
    stage: Stage, file: Path
) -> None:
    async with stage(settings=load_settings(file, {})) as it:
        await change(it, "sampling.top_k", "9")
        await it.until(lambda: any("is kept in" in line for line in it.told))
        await it.ask("Q")
        assert it.client.submits[-1].sampling.top_k == 9
    assert file.read_text() == (
        "# mine\ntheme = 'dark'  # for my eyes\n\n[sampling]\ntop_k = 9 # seven\n"
    )
    assert load_settings(file, {}).sampling.top_k == 9


async def test_an_emptied_value_leaves_the_file_and_is_chosen_again(
    stage: Stage, file: Path
) -> None:
    async with stage(settings=load_settings(file, {})) as it:
        await change(it, "sampling.top_k", "")
        await it.until(lambda: any("is kept in" in line for line in it.told))
        assert it.session.settings.sampling.top_k is None
    assert "top_k" not in file.read_text()


async def test_a_wrong_value_changes_nothing(stage: Stage, file: Path) -> None:
    before = file.read_text()
    async with stage(settings=load_settings(file, {})) as it:
        await change(it, "sampling.top_k", "-3")
        await it.until(lambda: any("cannot be" in line for line in it.told))
        assert it.session.settings.sampling.top_k == 7
    assert file.read_text() == before


async def test_a_file_that_cannot_be_written_is_told_and_the_change_holds_for_the_run(
    stage: Stage, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.read_text()

    def refuse(**_where: object) -> tuple[int, str]:
        raise PermissionError(13, "Permission denied", str(file.parent / ".config.toml.x1y2"))

    async with stage(settings=load_settings(file, {})) as it:
        monkeypatch.setattr("app.paths.tempfile.mkstemp", refuse)
        await change(it, "sampling.top_k", "9")
        await it.until(lambda: any("for this run only" in line for line in it.told))
        told = it.told[-1]
        assert f"No permission. {file}: Permission denied" in told
        assert "x1y2" not in told
        assert it.session.settings.sampling.top_k == 9
    assert file.read_text() == before


async def test_theme_and_keys_of_the_prompt_change_at_once(stage: Stage, file: Path) -> None:
    async with stage() as it:
        await change(it, "theme", "light")
        assert it.app.theme == LIGHT.name
        await change(it, "chat.enter_sends", "off")
        await it.pilot.press("a", "enter", "b")
        assert it.prompt.text == "a\nb"
        await it.until(lambda: len(it.told) == 2)
    kept = load_settings(file, {})
    assert (kept.theme, kept.chat.enter_sends) == ("light", False)


async def test_an_engine_setting_loads_the_model_again(stage: Stage, file: Path) -> None:
    async with stage() as it:
        await change(it, "engine.ctx", "4096")
        await it.until(lambda: it.screen.loader.is_running is False and len(it.client.loads) == 2)
        assert it.client.loads[-1].ctx == 4096
    assert load_settings(file, {}).engine == EngineSettings(ctx=4096)


async def test_an_engine_setting_never_ends_a_running_answer(stage: Stage, file: Path) -> None:
    gate = threading.Event()
    client = ScriptedClient([Script(("One. ", "Two."), gate=gate)])
    async with stage(client=client) as it:
        it.prompt.insert("Go.")
        await it.pilot.press("enter")
        await it.until(lambda: it.transcript.last_answer and it.transcript.last_answer.text)
        await change(it, "engine.ctx", "4096")
        await it.until(lambda: any("next load" in line for line in it.told))
        assert len(client.loads) == 1
        gate.set()
        await it.until(lambda: it.screen.answering.run is None)
        assert it.path()[-1].text == "One. Two."


async def test_a_text_of_several_lines_is_left_to_the_file(stage: Stage) -> None:
    settings = Settings(chat=ChatSettings(system="Be kind.\nBe short.\x1b[2J"))
    async with stage(size=(120, 60), settings=settings) as it:
        await it.pilot.press("ctrl+o")
        await it.until(lambda: "Be kind. Be short." in it.text())
        assert "\x1b" not in it.text()
        options = it.app.screen.query_one("OptionList")
        assert options.get_option("chat.system").disabled
        assert not options.get_option("chat.enter_sends").disabled


def test_values_are_written_as_options_are() -> None:
    assert [written(one) for one in (True, False, None, (), ("a", "b"), 0.5, "x")] == [
        "on", "off", "", "", '["a", "b"]', "0.5", "x",
    ]  # fmt: skip
    assert is_one_line("two  spaces")
    assert not any(map(is_one_line, ("a\nb", "a\tb", "a\x1b")))


def test_a_variable_that_goes_before_the_file_is_named(tmp_path: Path) -> None:
    words = kept_words(tmp_path / "c.toml", "engine.threads", {"LOCALCHAT_ENGINE_THREADS": "2"})
    assert "LOCALCHAT_ENGINE_THREADS is set" in words
    assert "is set" not in kept_words(tmp_path / "c.toml", "engine.threads", {})


async def test_a_larger_context_tells_its_cost_before_it_is_chosen(stage: Stage) -> None:
    async with stage() as it:
        loaded = it.screen.loaded
        await it.pilot.press("ctrl+o")
        await it.until(lambda: isinstance(it.app.screen, SettingsPage))
        options = it.app.screen.query_one("OptionList")
        options.highlighted = options.get_option_index("engine.ctx")
        await it.pilot.press("enter")
        await it.until(lambda: isinstance(it.app.screen, AskPage))
        await it.until(lambda: f"{loaded.ctx:,} tokens need" in it.text())
        assert words.size(1024 * loaded.kv_bytes_per_token) in it.text()
