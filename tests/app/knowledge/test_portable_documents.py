"""Documents and citations in exported chats."""

from __future__ import annotations

import json
from pathlib import Path

from app.portable import as_document, as_markdown, read_document, read_whole, store_document
from app.store.history import History
from app.store.rows import Cited
from tests.app.store.test_documents import citation, sources


def answered(history: History) -> int:
    chat = history.new_chat()
    question = history.add_user(chat.id, None, "What does it cost?")
    history.set_sources(question.id, sources())
    answer = history.begin_answer(chat.id, question.id)
    cited = Cited((citation(),), "40 euros [1][9].")
    history.finish_answer(answer.id, "complete", "40 euros [1].", cited=cited)
    return chat.id


def test_an_exported_chat_comes_back_with_its_documents() -> None:
    history = History.in_memory()
    whole = read_whole(history, answered(history))
    text = json.dumps(as_document(whole), ensure_ascii=False).encode()
    question, answer = history.path(store_document(history, read_document(text)).id)
    (passage,) = question.sources.passages
    assert passage.text == sources().passages[0].text
    # A file's name that is no text loses what is no text.
    assert passage.path == Path("/docs/b\ufffdd 文.pdf")
    assert (answer.citations[0].place, answer.said) == (citation().place, "40 euros [1][9].")
    again, first = (as_document(read_whole(history, number)) for number in (2, 1))
    for name, place in (("sources", 0), ("citations", 1), ("said", 1)):
        assert again["messages"][place][name] == first["messages"][place][name]


def test_markdown_names_the_sources_of_an_answer() -> None:
    history = History.in_memory()
    text = as_markdown(read_whole(history, answered(history)))
    assert "40 euros [1].\n\n- [1] b\\xffd 文.pdf p. 12" in text


def test_messages_without_documents_are_written_as_before() -> None:
    history = History.in_memory()
    chat = history.new_chat()
    history.add_user(chat.id, None, "Hello")
    (message,) = as_document(read_whole(history, chat.id))["messages"]
    assert message.keys() == {"role", "text", "reasoning", "created", "parent"}
