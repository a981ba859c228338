"""Laws of titles: the first line always, the model's when it is asked for, a person's for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.settings import ChatSettings, Settings
from app.widgets.bars import TitleBar
from engine.errors import UsageError
from engine.events import ErrorInfo
from tests.app.tui.fakes import Script, ScriptedClient

Stage = Callable[..., Any]
AUTOMATIC = Settings(chat=ChatSettings(auto_title=True))


def kinds(it: Any) -> list[str]:
    return [submit.kind for submit in it.client.submits]


async def test_the_first_line_is_the_title_and_the_model_is_not_asked(stage: Stage) -> None:
    async with stage() as it:
        await it.ask("Where is Lyon?")
        await it.ask("And Nice?")
        assert it.screen.query_one(TitleBar).chat_title == "Where is Lyon?"
        assert kinds(it) == ["answer", "answer"]


async def test_the_model_names_a_chat_once_where_the_settings_say_so(stage: Stage) -> None:
    client = ScriptedClient([Script(("In France.",)), Script(("Lyon",)), Script(("On the sea.",))])
    async with stage(client=client, settings=AUTOMATIC) as it:
        await it.ask("Where is Lyon?")
        await it.until(lambda: it.screen.query_one(TitleBar).chat_title == "Lyon")
        await it.until(lambda: it.session.history.chats()[0].title == "Lyon")
        await it.ask("And Nice?")
        await it.pilot.pause()
        assert kinds(it) == ["answer", "title", "answer"]
        assert [m.text for m in it.path()][-1] == "On the sea."


@pytest.mark.parametrize("finish", ["cancelled", "error"])
async def test_an_answer_that_was_stopped_or_failed_is_not_named(stage: Stage, finish: str) -> None:
    failure = ErrorInfo("failed", "Gone.") if finish == "error" else None
    script = Script(("In",), finish="cancelled", failure=failure)
    async with stage(client=ScriptedClient([script]), settings=AUTOMATIC) as it:
        await it.ask("Where is Lyon?")
        await it.pilot.pause()
        assert kinds(it) == ["answer"]


async def test_a_title_that_fails_by_itself_says_nothing(stage: Stage) -> None:
    scripts = [Script(("In France.",)), Script(failure=ErrorInfo("failed", "Gone."))]
    async with stage(client=ScriptedClient(scripts), settings=AUTOMATIC) as it:
        await it.ask("Where is Lyon?")
        await it.until(lambda: kinds(it) == ["answer", "title"])
        await it.ask("And Nice?")
        assert it.told == []
        assert it.screen.query_one(TitleBar).chat_title == "Where is Lyon?"


async def test_a_title_that_was_asked_for_and_fails_is_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_chat_id: int) -> None:
        raise UsageError("This model cannot make titles.")

    async with stage() as it:
        await it.ask("Where is Lyon?")
        monkeypatch.setattr(it.session, "title", refuse)
        it.prompt.insert("/title")
        await it.pilot.press("enter")
        await it.until(lambda: any("cannot make titles" in line for line in it.told))


async def test_a_title_of_a_private_chat_renames_no_stored_one(stage: Stage) -> None:
    async with stage(chats=[[("Tax letter", "A")]]) as it:
        it.screen.chats.enter_private()
        await it.ask("secret")
        private, chat = it.session, it.screen.chat
        stored = it.screen.stored_session.history.chat(1)
        assert (chat.id, chat.private) == (stored.id, True)
        it.screen.chats.leave_private()
        it.screen.chat = stored
        it.screen.titles.rename(private, chat.id, "Not yours")
        await it.until(lambda: private.history.chat(1).title == "Not yours")
        await it.pilot.pause()
        assert it.screen.chat.title == "Tax letter"
