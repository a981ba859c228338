"""Search finds words in every script, and no query is syntax."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store import search
from app.store.history import History


def add(history: History, *messages: str, title: str | None = None) -> int:
    chat = history.new_chat(title=title)
    for message in messages:
        history.add_user(chat.id, None, message)
    return chat.id


def found(history: History, query: str) -> list[int]:
    return [one.id for one in history.chats(query)]


def test_words_are_found_by_their_beginning_without_case_and_accents(history: History) -> None:
    one = add(history, "A Café in Zürich\nwith croissants", title="x")
    add(history, "something else", title="y")
    for query in ("cafe", "CAFÉ", "zuri", "cafe zurich", "croissants cafe", "  in "):
        assert found(history, query) == [one]
    assert found(history, "afé") == found(history, "cafe else") == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("你好世界", "好世"),
        ("你好世界", "世"),
        ("東京へ行きました", "行き"),
        ("서울에서만나요", "에서"),
        ("สวัสดีครับ", "ดีครับ"),
        ("x -> y", "->"),
        ("C++ and 你好", "c++ 你"),
        ("😀 smile", "😀"),
    ],
)
def test_scripts_without_spaces_and_signs_are_found_inside(
    history: History, text: str, query: str
) -> None:
    one = add(history, text, title="x")
    add(history, "other", title="y")
    assert found(history, query) == [one]


def test_titles_are_found_too_and_come_first(history: History) -> None:
    by_text = add(history, "the garden in spring", title="x")
    by_title = add(history, "hello", title="Garden")
    assert found(history, "garden") == [by_title, by_text]
    history.rename(by_title, "Harbour")
    assert found(history, "garden") == [by_text]
    assert found(history, "harb") == [by_title]


def test_a_hit_shows_the_place_on_one_clean_line(history: History) -> None:
    add(history, "word " * 100 + "\x1b[31m needle\nnext " + "word " * 100, title="x")
    (hit,) = history.chats("needle")
    assert "␛[31m needle next" in hit.snippet
    assert len(hit.snippet) < 120
    assert hit.message_id == 1
    (read,) = history.chats("needle ->") or history.chats("\x1b[31m")
    assert "needle" in read.snippet


def test_a_hit_shows_an_accented_word(history: History) -> None:
    add(history, "word " * 100 + "Zürich is here " + "word " * 100, title="x")
    assert "Zürich is here" in history.chats("zurich")[0].snippet


def test_an_answer_is_found_once_it_is_finished(history: History) -> None:
    chat = history.new_chat().id
    question = history.add_user(chat, None, "q")
    answer = history.begin_answer(chat, question.id)
    history.journal(answer.id, "pineapple", "", ())
    assert found(history, "pineapple") == []
    history.finish_answer(answer.id, "cut", "pineapple tree")
    assert found(history, "pineapple") == [chat]
    history.resume_answer(answer.id)
    history.journal(answer.id, "pineapple tree house", "", ())
    history.finish_answer(answer.id, "complete", "banana")
    assert found(history, "pineapple") == []
    assert found(history, "banana") == [chat]
    with history._database.write() as connection:
        assert search.is_sound(connection)


@given(st.text())
def test_no_query_is_an_error(query: str) -> None:
    history = History.in_memory()
    add(history, "some text", query)
    assert isinstance(history.chats(query), list)
    history.close()


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "a OR b",
        "NOT x",
        "text:some",
        "some*",
        "(",
        "a NEAR/2 b",
        "-",
        "^some",
        "'; DROP",
        "\0",
    ],
)
def test_syntax_in_a_query_means_itself(history: History, query: str) -> None:
    add(history, "some text")
    assert found(history, query) in ([], [1])
    other = add(history, f"before {query} after", title="x")
    assert other in found(history, query) or not query.strip("\0")


@given(st.lists(st.sampled_from(["insert", "finish", "edit", "delete", "title"]), max_size=12))
def test_the_index_always_says_what_the_texts_say(steps: list[str]) -> None:
    history = History.in_memory()
    chat = history.new_chat().id
    for number, step in enumerate(steps):
        messages = history.path(chat)
        if step == "insert" or not messages:
            history.begin_answer(chat, history.add_user(chat, None, f"word{number}").id)
        elif step == "finish":
            history.finish_answer(messages[-1].id, "complete", f"answer{number}")
        elif step == "edit":
            history.resume_answer(messages[-1].id)
        elif step == "delete":
            history.delete_subtree(messages[-1].id)
        else:
            history.rename(chat, f"title{number}")
    with history._database.write() as connection:
        assert search.is_sound(connection)
    history.close()


def test_the_check_of_the_index_is_not_blind(history: History) -> None:
    add(history, "some text")
    with history._database.write() as connection:
        connection.execute(
            "INSERT INTO words (words, rowid, text) VALUES ('delete', 1, 'some text')"
        )
        assert not search.is_sound(connection)
        search.rebuild(connection)
        assert search.is_sound(connection)
    assert sqlite3.sqlite_version_info >= (3, 9)
