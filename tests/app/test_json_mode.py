"""Laws of `chat --json` over a scripted engine: one object out for each line in."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.console import Console
from app.json_mode import JsonMode
from app.knowledge.passage import Retrieved
from app.line_options import option_pairs
from app.paths import Paths
from app.session import Session
from app.settings import Settings
from app.store.history import History
from engine.errors import UsageError
from engine.messages import Loaded, LoadProgress
from tests.app.fake_base import FakeBase, passage
from tests.app.fake_client import FakeClient, answers, dies_after, loaded_model

FIELDS = {
    "text",
    "reasoning",
    "token_ids",
    "finish_reason",
    "model",
    "backend",
    "kv_type",
    "seed",
    "usage",
    "reuse_break",
    "timings",
    "chat_id",
    "user_message_id",
    "message_id",
    "citations",
}


class ReadySession(Session):
    """Its model is in use, whichever one is asked for."""

    def load(
        self,
        model: str | None = None,
        progress: Callable[[LoadProgress], None] | None = None,
        settings: Settings | None = None,
    ) -> Loaded:
        return loaded_model()


class Script:
    """A JSON mode over a temporary folder; `say` feeds lines and returns the objects printed."""

    def __init__(self, folder: Path) -> None:
        self.client = FakeClient()
        paths = Paths.under(folder).ensure()
        model = folder / "any.gguf"
        model.write_bytes(b"")
        history = History.open(paths.database, paths.locks)
        self.session = ReadySession(history, self.client, Settings(), paths)
        self.out = io.StringIO()
        self.err = io.StringIO()
        console = Console(out=self.out, err=self.err)
        self.mode = JsonMode(self.session, Settings(), None, console, None)
        self.status = 0

    def say(self, *lines: object) -> list[dict[str, Any]]:
        self.out.seek(0)
        self.out.truncate()
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        self.status = self.mode.run(texts)
        return [json.loads(line) for line in self.out.getvalue().splitlines()]


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    made = Script(tmp_path)
    yield made
    made.session.close()


def test_an_answer_has_exactly_the_fixed_fields(script: Script) -> None:
    (answer,) = script.say({"user": "Hello?"})
    assert answer.keys() == FIELDS
    assert answer["usage"].keys() == {
        "prompt_tokens",
        "reused_tokens",
        "restored_tokens",
        "computed_tokens",
        "completion_tokens",
    }
    assert answer["timings"].keys() == {
        "load_ms",
        "restore_ms",
        "prefill_ms",
        "first_token_ms",
        "decode_ms",
        "decode_tokens_per_s",
    }
    assert answer["citations"] == []
    assert answer["reuse_break"] is None
    assert answer["usage"]["completion_tokens"] == len(answer["token_ids"])
    assert (answer["chat_id"], answer["user_message_id"], answer["message_id"]) == (1, 1, 2)


def test_every_line_prints_one_object_in_order(script: Script) -> None:
    objects = script.say(
        {"system": "Be kind."},
        {"user": "one"},
        {"user": "two"},
        {"edit": 1, "user": "uno"},
        {"regenerate": 6},
        {"select": 4},
        {"title": True},
        {"user": "three"},
    )
    assert [sorted(one) for one in (objects[0], objects[5], objects[6])] == [
        ["chat_id", "system"],
        ["selected"],
        ["chat_id", "title", "usage"],
    ]
    ids = [(o["user_message_id"], o["message_id"]) for o in objects if "text" in o]
    assert ids == [(1, 2), (3, 4), (5, 6), (5, 7), (8, 9)]
    path = [m.id for m in script.session.history.path(1)]
    assert path == [1, 2, 3, 4, 8, 9]
    assert script.status == 0


def test_a_new_system_prompt_starts_a_new_chat(script: Script) -> None:
    first, made, second = script.say({"user": "a"}, {"system": "S"}, {"user": "b"})
    assert (first["chat_id"], made["chat_id"], second["chat_id"]) == (1, 2, 2)
    assert [m.role for m in script.client.submits[-1].messages] == ["system", "user"]


def test_regenerate_takes_the_question_or_the_answer(script: Script) -> None:
    _, by_question, by_answer = script.say({"user": "a"}, {"regenerate": 1}, {"regenerate": 2})
    assert by_question["user_message_id"] == by_answer["user_message_id"] == 1
    assert (by_question["message_id"], by_answer["message_id"]) == (3, 4)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{", "JSON"),
        ("[1]", "object"),
        ("null", "object"),
        ("[" * 100_000, "JSON"),
        ({}, "nothing"),
        ({"options": {}}, "nothing"),
        ({"usr": "x"}, "'user'"),
        ({"user": "x", "temperature": 0}, "temperature"),
        ({"user": 3}, "text"),
        ({"user": ""}, "empty"),
        ({"user": "x", "select": 1}, "do not belong"),
        ({"edit": 1}, "edit"),
        ({"edit": "1", "user": "x"}, "number"),
        ({"edit": True, "user": "x"}, "number"),
        ({"select": 99}, "99"),
        ({"regenerate": 0}, "number"),
        ({"regenerate": 10**30}, "number"),
        ({"title": 1}, "true"),
        ({"title": True}, "no chat"),
        ({"user": "x", "stop_after": -1}, "stop_after"),
        ({"user": "x", "options": 3}, "options"),
        ({"user": "x", "options": {"temprature": 1}}, "temperature"),
        ({"user": "x", "options": {"temperature": {}}}, "temperature"),
        ({"system": None}, "text"),
    ],
)
def test_a_line_that_fails_prints_an_error_and_the_stream_goes_on(
    script: Script, line: object, word: str
) -> None:
    error, fine = script.say(line, {"user": "still here?"})
    assert error["error"].keys() == {"code", "message", "next"}
    assert error["error"]["code"] == "usage"
    assert word in error["error"]["message"] + error["error"]["next"]
    assert fine["text"] == "Hello."
    assert script.status == 0


def test_the_status_is_that_of_the_last_line(script: Script) -> None:
    script.say({"user": "fine"}, {"user": ""})
    assert script.status == 2
    script.client.script = dies_after("a")
    script.say({"user": "dies"})
    assert script.status == 1
    script.client.script = answers("ok")
    script.say("", "   ", {"user": "fine"}, "")
    assert script.status == 0


def test_a_dead_engine_is_an_error_line_with_its_code(script: Script) -> None:
    script.client.script = dies_after("Half")
    (line,) = script.say({"user": "a"})
    assert line["error"]["code"] == "failed"
    assert script.session.history.message(2).text == "Half"


def test_options_hold_for_their_line_only(script: Script) -> None:
    script.say(
        {
            "user": "a",
            "options": {"temperature": 0, "seed": 5, "stop": ["x", "y"]},
            "stop_after": 3,
        },
        {"user": "b"},
    )
    first, second = script.client.submits
    assert (first.sampling.temperature, first.sampling.seed) == (0, 5)
    assert (first.stop, first.stop_after) == (("x", "y"), 3)
    assert (second.sampling.temperature, second.stop, second.stop_after) == (None, (), None)


def test_options_mean_the_same_in_both_forms() -> None:
    pairs = option_pairs({"temperature": 0.5, "flash": True, "stop": ["a=b", ""], "ctx": None})
    assert pairs == ["temperature=0.5", "flash=on", "stop=a=b", "stop=", "ctx=auto"]
    with pytest.raises(UsageError):
        option_pairs(["temperature=1"])


def test_what_a_person_should_know_of_an_answer_is_told_beside_it(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Retrieved((passage("Fee."),), (passage("Dogs."),), needs_all=True)
    monkeypatch.setattr(script.session.knowledge, "get", lambda name: FakeBase(found))
    settings = {"kb_read_all": False}
    _, answer = script.say({"kb": "work"}, {"user": "List all fees.", "options": settings})
    assert answer["text"] == "Hello."
    assert "only 1 of 2 passages" in script.err.getvalue()


def test_a_line_chooses_the_knowledge_base_of_the_lines_after_it(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = FakeBase(Retrieved((passage("The fee is 40 euros.", "fees.md"),)))
    monkeypatch.setattr(script.session.knowledge, "get", lambda name: base)
    script.client.script = answers("40 euros [1].")
    chosen, first, left, second = script.say(
        {"kb": "work"}, {"user": "What is the fee?"}, {"kb": None}, {"user": "What is the fee?"}
    )
    assert (chosen, left) == ({"kb": "work"}, {"kb": None})
    (citation,) = first["citations"]
    assert citation == {
        "number": 1,
        "place": "fees.md:1",
        "path": "/docs/fees.md",
        "page": None,
        "last_page": None,
        "first_line": 1,
        "last_line": 1,
        "start": 0,
        "end": 20,
        "supported": True,
        "named": True,
    }
    assert second["citations"] == []
    assert len(base.asked) == 1
    (wrong,) = script.say({"kb": 3})
    assert wrong["error"]["code"] == "usage"
    # Nothing can be asked of a base that does not exist.
    monkeypatch.undo()
    (missing,) = script.say({"kb": "nothing"})
    assert missing["error"]["code"] == "usage"
    assert "nothing" in missing["error"]["message"]
