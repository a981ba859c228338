"""The documents beside a question and the citations of an answer, in databases of every shape."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from app.knowledge.passage import Passage
from app.knowledge.sources import Citation, Sources
from app.paths import Paths
from app.store import migrations
from app.store.database import connect, prepare, truncate_log
from app.store.draft import KeptDraft, Pasted
from app.store.history import History
from app.store.rows import Cited
from tests.app.store.conftest import OpenHistory

UNDECODABLE = Path(os.fsdecode(b"/docs/b\xffd \xe6\x96\x87.pdf"))


def passage(text: str = "It costs 40 euros.", path: Path = UNDECODABLE) -> Passage:
    return Passage(
        path=path,
        name="b\\xffd 文.pdf",
        text=text,
        start=7,
        end=7 + len(text),
        headings=("Costs", "\u202eodd"),
        page=12,
        last_page=13,
        score=0.5,
        reason="words .81",
    )


def sources() -> Sources:
    return Sources("work", "7f3a", (passage(),), (passage("Other."),), reason="2 of 3 files.")


def citation() -> Citation:
    one = passage()
    return Citation(1, one.place, str(one.path), 12, None, None, one.start, one.end, True)


def test_what_stands_beside_a_question_comes_back_as_it_was(
    history: History, open_history: OpenHistory
) -> None:
    chat = history.new_chat()
    question = history.add_user(chat.id, None, "What does it cost?")
    assert question.sources is None
    history.set_sources(question.id, sources())
    answer = history.begin_answer(chat.id, question.id)
    cited = Cited((citation(),), "40 euros [1][9].")
    history.finish_answer(answer.id, "complete", "40 euros [1].", cited=cited)
    history.close()
    question, answer = open_history().path(chat.id)
    assert question.sources == sources()
    assert (answer.citations, answer.said) == (cited.citations, cited.said)
    assert os.fsencode(question.sources.passages[0].path) == os.fsencode(UNDECODABLE)


def test_documents_that_another_program_wrote_are_left_out(history: History) -> None:
    chat = history.new_chat()
    question = history.add_user(chat.id, None, "?")
    for odd in ("{}", "no JSON", '{"base": 1}', "[" * 100_000, '{"base": "", "passages": [3]}'):
        with history._database.write() as connection:
            connection.execute("UPDATE messages SET sources = ?", (odd,))
        assert history.message(question.id).sources is None


@pytest.fixture
def first_shape(paths: Paths) -> Paths:
    """A database as the first shape was, with a question and an answer."""
    paths.database.touch(0o600)
    connection = connect(paths.database)
    prepare(connection)
    migrations.migrate(connection, migrations.STEPS[:1])
    connection.execute("INSERT INTO chats VALUES (1, 'Costs', 'person', 1, 2, '', NULL, 2, NULL)")
    connection.executemany(
        "INSERT INTO messages VALUES (?, 1, ?, ?, 'complete', 3.0, '', NULL, ?, '', NULL)",
        [(1, None, "user", "Old question"), (2, 1, "assistant", "Old answer")],
    )
    connection.execute("INSERT INTO drafts VALUES (1, 'Old draft', 3.0)")
    truncate_log(connection)
    connection.close()
    return paths


def test_a_database_of_the_first_shape_takes_documents(
    first_shape: Paths, open_history: OpenHistory
) -> None:
    history = open_history()
    old, answer = history.path(1)
    assert (old.text, old.sources) == ("Old question", None)
    assert (answer.text, answer.citations, answer.said) == ("Old answer", (), "")
    question = history.add_user(1, answer.id, "New")
    assert history.set_sources(question.id, sources()).sources == sources()
    assert [chat.id for chat in history.search("old")] == [1]
    (backup,) = first_shape.data.glob("*.format-1-*")
    copy = sqlite3.connect(backup)
    assert copy.execute("PRAGMA user_version").fetchone() == (1,)
    copy.close()


def test_rows_of_both_shapes_are_recovered(first_shape: Paths, open_history: OpenHistory) -> None:
    history = open_history()
    question = history.add_user(1, 2, "New")
    history.set_sources(question.id, sources())
    new = KeptDraft("New draft", (Pasted(0, 3),))
    history.save_draft(None, new)
    history.close()
    data = bytearray(first_shape.database.read_bytes())
    data[16:18] = b"\0\0"
    data[18:100] = bytes(82)
    first_shape.database.write_bytes(data)
    again = open_history()
    assert [one.text for one in again.path(1)] == ["Old question", "Old answer", "New"]
    assert again.message(question.id).sources == sources()
    assert (again.draft(1), again.draft(None)) == (KeptDraft("Old draft"), new)
