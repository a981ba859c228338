"""Citations of the made set: every one points at the page or the line where its fact stands.

The answers are scripted: each says its fact, cites the passage that holds it, and invents a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.grounding import Found
from app.knowledge.bases import KnowledgeBases
from app.paths import Paths
from app.session import Answered, Options, Session
from app.settings import Settings
from app.store.history import History
from engine.events import Delta, Event, Finished
from engine.messages import Submit
from tests.app.fake_client import FakeClient, result
from tests.app.knowledge.made_documents import Fact, make_set

INVENTED = "[99]"


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    return Paths.under(tmp_path_factory.mktemp("data")).ensure()


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory, paths: Paths) -> list[Fact]:
    folder = tmp_path_factory.mktemp("set")
    made = make_set(folder)
    with KnowledgeBases(paths).create("set", [folder]) as base:
        base.sync(lexical_only=True)
    return made


def cite(session: Session, client: FakeClient, fact: Fact) -> tuple[Answered, str]:
    """The answer to a fact's question, and what was streamed of it."""
    found: list[Found] = []

    def script(submit: Submit, client: FakeClient) -> Iterator[Event]:
        passages = found[0].passages
        texts = [" ".join(one.text.split()) for one in passages]
        number = next(n for n, text in enumerate(texts, 1) if fact.sentence in text)
        said = f"{fact.sentence[:-1]} [{number}] {INVENTED}."
        for start in range(0, len(said), 3):
            yield Delta(submit.request_id, (), said[start : start + 3], "")
        yield Finished(submit.request_id, result(said))

    client.script = script
    shown = ""
    last: object = None
    for event in session.send(None, fact.question, Options(kb="set")):
        if isinstance(event, Found):
            found.append(event)
        if isinstance(event, Delta):
            shown += event.text
        last = event
    assert isinstance(last, Answered), last
    return last, shown


def test_every_citation_points_at_its_page_or_line(
    paths: Paths, facts: list[Fact], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = FakeClient()
    assert client.now is not None
    client.now = replace(client.now, ctx=8192)
    monkeypatch.setattr(client, "count", lambda text: len(text) // 4)
    session = Session(History.in_memory(), client, Settings(), paths)
    for fact in facts:
        answered, shown = cite(session, client, fact)
        assert INVENTED not in shown
        assert shown == answered.message.text
        (citation,) = answered.message.citations
        assert Path(citation.path) == fact.path, fact
        assert citation.supported, fact
        assert citation.page == fact.page, fact
        if fact.line is not None:
            assert (citation.first_line, citation.last_line) == (fact.line, fact.line), fact
    session.close()
