"""Laws of text that is searched by its meaning once that is learnt, and by words until then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.attached import Attachment
from app.attached_text import AttachedText
from app.grounding import Searching
from app.knowledge.base import KnowledgeBase
from app.knowledge.embedder import EmbedderFailed, EmbeddingEnded
from app.knowledge.states import SyncProgress
from app.learning import Learning
from app.paths import Paths
from app.session import Answered, Options, Session, SessionEvent
from app.settings import Settings
from app.store.history import History
from tests.app.fake_client import FakeClient
from tests.patience import PATIENCE_S

FILLER = "\n\n".join(f"Entry {number}: the harbour kept its tide tables." for number in range(60))
TEXT = (
    f"{FILLER}\n\n{'A physician prescribed tablets against the swollen ankle. ' * 12}\n\n{FILLER}"
)
QUESTION = "Which medicine did my doctor choose?"
"""None of its telling words stands in the text."""
ATTACHED = (Attachment("log.txt", TEXT),)


@dataclass
class TopicEmbedder:
    """Two topics, and a gate before each text."""

    fingerprint: str = "topics"
    size: int = 2
    speaks_cjk: bool = False
    gate: threading.Event = field(default_factory=threading.Event)
    held: int = 0
    failure: Exception | None = None
    ended: bool = False

    def embed_query(self, text: str) -> Any:
        is_health = any(word in text for word in ("medicine", "physician"))
        return np.array([1, 0] if is_health else [0, 1], np.float32)

    def embed_passages(self, texts: Sequence[str], is_wanted: Callable[[], bool]) -> Any:
        while not self.gate.wait(0.01):
            if self.ended or not is_wanted():
                raise EmbeddingEnded("Ended.")
        if self.failure is not None:
            raise self.failure
        return np.stack([self.embed_query(text) for text in texts])

    def wait(self, is_wanted: Callable[[], bool]) -> bool:
        return is_wanted()

    def pause(self) -> None:
        self.held += 1

    def resume(self) -> None:
        self.held -= 1

    def close(self) -> None:
        self.ended = True


@dataclass
class Bases:
    """What a session asks of all bases."""

    embedder: TopicEmbedder | None


@pytest.fixture
def embedder() -> TopicEmbedder:
    return TopicEmbedder()


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def session(
    tmp_path: Path, client: FakeClient, embedder: TopicEmbedder, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.setattr("app.startup.knowledge_bases", lambda paths: Bases(embedder))
    monkeypatch.setattr("app.grounding.A_MOMENT_S", 0.05)
    paths = Paths.under(tmp_path / "data").ensure()
    session = Session(History.open(paths.database, paths.locks), client, Settings(), paths)
    yield session
    session.close()


def answered(events: Iterator[SessionEvent]) -> Answered:
    *_, last = events
    assert isinstance(last, Answered)
    return last


def prompt(client: FakeClient) -> str:
    return client.submits[-1].messages[-1].content


def test_what_is_learnt_before_the_answer_is_searched_by_its_meaning(
    session: Session, client: FakeClient, embedder: TopicEmbedder
) -> None:
    embedder.gate.set()
    done = answered(session.send(None, QUESTION, Options(attached=ATTACHED)))
    assert {submit.kind for submit in client.submits} == {"answer"}
    assert "physician prescribed" in prompt(client)
    assert "by their words and their meaning" in done.result.notices[1]


def test_until_all_is_learnt_words_alone_are_searched_and_the_answer_says_so(
    session: Session, client: FakeClient, embedder: TopicEmbedder
) -> None:
    done = answered(session.send(None, "What about the swollen ankle?", Options(attached=ATTACHED)))
    assert "physician prescribed" in prompt(client)
    assert done.result.notices[1].endswith("searched by their words.")
    assert session.learning(done.chat_id) is not None
    embedder.gate.set()
    while session.learning(done.chat_id) is not None:
        pass
    later = answered(session.send(done.chat_id, QUESTION))
    assert "physician prescribed" in prompt(client)
    assert later.result.notices == ()
    sources = session.history.message(later.user_message_id).sources
    assert sources is not None
    assert "by their words and their meaning" in sources.reason


def test_where_the_words_say_nothing_the_meaning_is_waited_for(
    session: Session, client: FakeClient, embedder: TopicEmbedder
) -> None:
    told = []
    for event in session.send(None, QUESTION, Options(attached=ATTACHED)):
        if isinstance(event, Searching):
            told.append(event.text)
            if len(told) == 5:
                embedder.gate.set()
    assert {submit.kind for submit in client.submits} == {"answer"}
    assert "physician prescribed" in prompt(client)
    assert told[:2] == ["reading the attached text", "searching the attached text"]
    assert set(told[2:]) == {"learning what the text means"}


def test_a_question_in_a_script_that_the_model_does_not_know_waits_for_nothing(
    session: Session, embedder: TopicEmbedder
) -> None:
    events = session.send(None, "港口的潮汐 tide tables?", Options(attached=ATTACHED))
    told = [event.text for event in events if isinstance(event, Searching)]
    assert told == ["reading the attached text", "searching the attached text"]


def test_nothing_is_embedded_while_the_engine_works(
    session: Session, client: FakeClient, embedder: TopicEmbedder
) -> None:
    held = []
    script = client.script
    client.script = lambda submit, own: (
        # Notes, and gives the event on: `append` returns nothing.
        held.append(embedder.held) or event
        for event in script(submit, own)  # type: ignore[func-returns-value]
    )
    answered(session.send(None, "What about the swollen ankle?", Options(attached=ATTACHED)))
    assert set(held) == {1}
    assert embedder.held == 0


def test_an_embedder_that_fails_costs_the_meaning_only(
    session: Session, client: FakeClient, embedder: TopicEmbedder
) -> None:
    embedder.failure = EmbedderFailed("No vectors.")
    embedder.gate.set()
    done = answered(session.send(None, "What about the swollen ankle?", Options(attached=ATTACHED)))
    assert "physician prescribed" in prompt(client)
    while session.learning(done.chat_id) is not None:
        pass


@pytest.mark.parametrize("private", [False, True])
def test_an_end_does_not_wait_for_what_is_being_learnt(
    tmp_path: Path, embedder: TopicEmbedder, private: bool
) -> None:
    texts = AttachedText(tmp_path, private, lambda: embedder)
    base = texts.make(1, ATTACHED)
    assert texts.progress(1) is not None
    newer = texts.make(1, (replace(ATTACHED[0], text="Short."),))
    assert newer.folder != base.folder
    texts.close()
    assert texts.progress(1) is None
    assert not newer.folder.exists()


def test_what_begins_to_learn_while_all_ends_leaves_nothing(
    tmp_path: Path, embedder: TopicEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = KnowledgeBase.sync
    touched: list[bool] = []

    def late(base: KnowledgeBase, *arguments: Any, **named: Any) -> Any:
        if named:
            return synced(base, *arguments, **named)
        time.sleep(0.2)
        touched.append(base.folder.exists())
        raise EmbeddingEnded("Ended.")

    monkeypatch.setattr(KnowledgeBase, "sync", late)
    texts = AttachedText(tmp_path, private=False, embedder=lambda: embedder)
    folder = texts.make(1, ATTACHED).folder
    texts.close()
    assert touched == [True]
    assert not folder.exists()


@dataclass
class SlowBase:
    """Reports what the test says, when the clock says."""

    steps: list[SyncProgress]
    told: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def sync(self, report: Callable[[SyncProgress], None]) -> None:
        for step in self.steps:
            report(step)
        self.told.set()
        self.over.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("done", "elapsed", "waits"),
    [(0, 1.9, True), (0, 2.1, False), (30, 0.5, True), (30, 0.7, False)],
)
def test_nobody_waits_for_what_will_not_be_in_time(done: int, elapsed: float, waits: bool) -> None:
    """100 texts, two seconds: 30 of them in 0.6 s are just in time."""
    now = [0.0]
    base = SlowBase([SyncProgress("embedding", done, 100)])
    learning = Learning(base, lambda: now[0])  # type: ignore[arg-type]  # only synced
    assert base.told.wait(PATIENCE_S)
    now[0] = elapsed
    steps = learning.wait(2.0)
    assert (next(steps, None) is not None) is waits
    base.over.set()
