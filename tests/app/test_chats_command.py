"""Laws of `localchat chats`: it shows what is stored, gives it out, takes it in, deletes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.paths import Paths
from app.store.conversation import AnswerInfo
from app.store.history import History
from engine.events import ErrorInfo
from tests.app.program import run_program


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two chats; the first has two branches."""
    paths = Paths.under(tmp_path).ensure()
    history = History.open(paths.database, paths.locks)
    chat = history.new_chat("Be kind.")
    question = history.add_user(chat.id, None, "Where is Lyon?")
    for text in ("In Spain.", "In France, on the Rhône."):
        answer = history.begin_answer(chat.id, question.id)
        history.finish_answer(answer.id, "complete", text)
    other = history.new_chat()
    history.add_user(other.id, None, "Tax letter\x1b[31m")
    history.close()
    return tmp_path


def test_the_list_has_the_newest_first(home: Path) -> None:
    chats = json.loads(run_program(home, "chats", "--json").out)
    assert [(chat["id"], chat["messages"]) for chat in chats] == [(2, 1), (1, 3)]
    assert "Where is Lyon?" in run_program(home, "chats", "list").out


def test_search_finds_words_in_messages(home: Path) -> None:
    found = json.loads(run_program(home, "chats", "search", "rhône", "--json").out)
    assert [chat["id"] for chat in found] == [1]


def test_show_is_the_branch_on_screen(home: Path) -> None:
    shown = json.loads(run_program(home, "chats", "show", "1", "--json").out)
    assert [m["text"] for m in shown["messages"]] == ["Where is Lyon?", "In France, on the Rhône."]
    assert "In France" in run_program(home, "chats", "show", "1").out


def test_show_says_why_an_answer_failed(home: Path) -> None:
    paths = Paths.under(home)
    history = History.open(paths.database, paths.locks)
    error = ErrorInfo("failed", "The engine stopped.", "Signal 6.", "Send it again.")
    answer = history.begin_answer(2, 4)
    history.finish_answer(answer.id, "error", "", info=AnswerInfo(error=error))
    history.close()
    shown = run_program(home, "chats", "show", "2").out
    assert "The engine stopped. Signal 6. Send it again." in shown
    messages = json.loads(run_program(home, "chats", "show", "2", "--json").out)["messages"]
    assert [message["error"] for message in messages] == [
        None,
        {
            "code": "failed",
            "title": "The engine stopped.",
            "text": "Signal 6.",
            "next_step": "Send it again.",
        },
    ]


def test_what_was_exported_comes_back_the_same(home: Path) -> None:
    document = run_program(home, "chats", "export", "1").out
    made = json.loads(run_program(home, "chats", "import", "-", "--json", stdin=document).out)
    assert made["chat_id"] == 3
    again = run_program(home, "chats", "export", "3").out
    plain = [json.loads(text) for text in (document, again)]
    for one in plain:
        one["created"] = 0
        for message in one["messages"]:
            message["created"] = 0
    assert plain[0] == plain[1]
    assert plain[0]["system"] == "Be kind."
    assert [message["text"] for message in plain[1]["messages"]] == [
        "Where is Lyon?",
        "In Spain.",
        "In France, on the Rhône.",
    ]


def test_the_branch_on_screen_is_the_same_after_an_import(home: Path) -> None:
    paths = Paths.under(home)
    history = History.open(paths.database, paths.locks)
    history.select(2)
    history.close()
    document = run_program(home, "chats", "export", "1").out
    run_program(home, "chats", "import", "-", stdin=document)
    shown = json.loads(run_program(home, "chats", "show", "3", "--json").out)
    assert [m["text"] for m in shown["messages"]] == ["Where is Lyon?", "In Spain."]


def test_a_document_of_one_branch_is_still_read(home: Path) -> None:
    document = {
        "format": "localchat.chat",
        "version": 1,
        "title": "",
        "messages": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}],
    }
    run_program(home, "chats", "import", "-", stdin=json.dumps(document))
    shown = json.loads(run_program(home, "chats", "show", "3", "--json").out)
    assert [m["text"] for m in shown["messages"]] == ["a", "b"]


def test_markdown_holds_the_words(home: Path) -> None:
    text = run_program(home, "chats", "export", "1", "--markdown").out
    assert text.startswith("# Where is Lyon?\n")
    assert "In France, on the Rhône.\n" in text
    shown, other = text.split("\n# Another answer to “Where is Lyon?”\n")
    assert "In Spain." not in shown
    assert "In Spain." in other


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"format": "localchat.chat", "version": 4, "title": "", "messages": []}',
        '{"format": "localchat.chat", "version": 3, "title": "", "messages": [{"role": "user",'
        ' "text": "x", "sources": {"base": 1}}]}',
        '{"format": "localchat.chat", "version": 2, "title": "", "messages": [], "current": 0}',
        '{"format": "localchat.chat", "version": 2, "title": "", "messages": [{"role": "user",'
        ' "text": "x", "parent": 0}]}',
        '{"format": "localchat.chat", "version": 2, "title": "", "messages": [{"role": "user",'
        ' "text": "x", "parent": -1}]}',
        '{"format": "localchat.chat", "version": 1, "title": 3, "messages": []}',
        '{"format": "localchat.chat", "version": 1, "title": "", "messages": [{"role": "root",'
        ' "text": "x"}]}',
        '{"format": "localchat.chat", "version": 1, "title": "", "messages": [], "extra": 1}',
    ],
)
def test_a_foreign_document_is_refused_and_stores_nothing(home: Path, document: str) -> None:
    outcome = run_program(home, "chats", "import", "-", stdin=document)
    assert outcome.status == 2
    assert "Traceback" not in outcome.err
    assert len(json.loads(run_program(home, "chats", "--json").out)) == 2


def test_deleting_needs_a_yes_and_is_complete(home: Path) -> None:
    assert run_program(home, "chats", "delete", "1").status == 2
    assert run_program(home, "chats", "delete", "1", "99", "--yes").status == 2
    assert len(json.loads(run_program(home, "chats", "--json").out)) == 2
    assert run_program(home, "chats", "delete", "1", "--yes").status == 0
    assert [c["id"] for c in json.loads(run_program(home, "chats", "--json").out)] == [2]
    files = [path for path in home.rglob("*") if path.is_file()]
    assert not any("Rhône".encode() in path.read_bytes() for path in files)


def test_a_missing_file_to_import_is_a_sentence(home: Path) -> None:
    outcome = run_program(home, "chats", "import", str(home / "nothing.json"))
    assert outcome.status == 1
    assert "nothing.json" in outcome.err


def test_saved_states_are_counted_and_cleared(home: Path) -> None:
    states = home / "cache" / "states"
    states.mkdir(parents=True)
    (states / "a.state").write_bytes(b"12345")
    status = json.loads(run_program(home, "cache", "--json").out)
    assert (status["states"], status["bytes"]) == (1, 5)
    assert run_program(home, "cache", "clear").status == 0
    assert not list(states.iterdir())
