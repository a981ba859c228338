"""What answers from documents compute: what is new, and nothing of what was said before.

The first test has the scripted backend, whose tokens are bytes; the others the starter model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.attached import Attachment
from app.knowledge.bases import KnowledgeBases
from app.paths import Paths
from app.session import Answered, Options, Session
from app.settings import CacheSettings, KnowledgeSettings, Settings
from app.store.history import History
from engine.client import EngineClient
from engine.events import Usage
from engine.messages import LoadOptions, SamplingOverrides
from tests.app.program import Outcome, run_program
from tests.engine.client_support import scripted_client

TOPICS = ("bees", "roses", "fences", "rain", "tools", "paths", "ponds", "apples")
PLAIN = Options(
    kb="garden",
    max_tokens=24,
    sampling=SamplingOverrides(temperature=0.0, seed=1),
    documents=KnowledgeSettings(rewrite=False),
)


def document(topic: str, number: int) -> str:
    return "\n\n".join(
        f"## {topic.title()} in part {part}\n\nThe {topic} of plot {part} were looked after by "
        f"gardener {number}{part} in the year {1950 + 7 * number + part}. They cost {number}{part} "
        f"euros, and the notes on {topic} fill {part + 3} pages."
        for part in range(1, 9)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of more than 4,096 tokens, whatever the vocabulary."""
    folder = tmp_path_factory.mktemp("documents")
    for number, topic in enumerate(TOPICS):
        (folder / f"{topic}.md").write_text(f"# {topic.title()}\n\n{document(topic, number)}")
    return folder


def make_base(paths: Paths, folder: Path, name: str = "garden") -> None:
    with KnowledgeBases(paths).create(name, [folder]) as base:
        base.sync(lexical_only=True)


def talk(session: Session, *questions: str, options: Options = PLAIN) -> list[Answered]:
    answers: list[Answered] = []
    chat: int | None = None
    for question in questions:
        *_, last = session.send(chat, question, options)
        assert isinstance(last, Answered), last
        chat = last.chat_id
        answers.append(last)
    return answers


def found(usage: Usage) -> int:
    return usage.reused_tokens + usage.restored_tokens


@pytest.fixture
def session(tmp_path: Path, folder: Path) -> Iterator[Session]:
    paths = Paths.under(tmp_path / "data").ensure()
    make_base(paths, folder)
    client = scripted_client(tmp_path)
    client.load("/models/bytes.gguf", LoadOptions(canonical=False, ctx=16_384))
    made = Session(History.open(paths.database, paths.locks), client, Settings(), paths)
    yield made
    made.close()


def test_no_turn_reads_its_history_again(session: Session) -> None:
    answers = talk(
        session,
        "Who looked after the roses of plot 3?",
        "What did the ponds of plot 5 cost?",
        "When were the apples of plot 2 looked after?",
    )
    for before, after in pairwise(one.result.usage for one in answers):
        # All that was said before, but for the last token of an answer, which was never computed.
        assert found(after) >= before.prompt_tokens + before.completion_tokens - 1
        assert after.computed_tokens <= after.prompt_tokens - before.prompt_tokens
    assert all(one.message.info and one.result.reuse_break is None for one in answers)


def test_text_that_goes_whole_into_a_message_is_read_once(session: Session) -> None:
    attached = (Attachment("notes.txt", "Bees hum.\n<<0>>\n" * 20), Attachment("", "Ants walk."))
    plain = Options(max_tokens=24)
    *_, first = session.send(None, "Who hums?", replace(plain, attached=attached))
    assert isinstance(first, Answered)
    before = first.result.usage
    for question in ("And who walks?", "Who else?"):
        *_, one = session.send(first.chat_id, question, plain)
        assert isinstance(one, Answered)
        after = one.result.usage
        assert found(after) >= before.prompt_tokens + before.completion_tokens - 1
        assert after.computed_tokens <= after.prompt_tokens - before.prompt_tokens
        before = after


# ---- with the starter

QUESTIONS = (
    "Who looked after the roses of plot 3?",
    "What did the ponds of plot 5 cost?",
    "And when?",
    "When were the apples of plot 2 looked after?",
)


def program(home: Path, *words: str, stdin: str = "") -> Outcome:
    return run_program(
        home, *words, stdin=stdin, LOCALCHAT_ENGINE_SELF_TUNE="off", LOCALCHAT_CACHE_CANONICAL="off"
    )


def paths_of(home: Path) -> Paths:
    return Paths(home / "config", home / "data", home / "state", home / "cache")


@pytest.mark.model
def test_turns_with_searches_read_no_history_again(
    tmp_path: Path, folder: Path, starter_model: Path
) -> None:
    make_base(paths_of(tmp_path), folder)
    settings = Settings(cache=CacheSettings(canonical=False))
    session = open_real(tmp_path, settings, starter_model)
    try:
        options = replace(PLAIN, documents=KnowledgeSettings(rewrite=True))
        answers = talk(session, *QUESTIONS, options=options)
    finally:
        session.close()
    # What a small model makes of "And when?" is not always found: then nothing is asked of it.
    usages = [one.result.usage for one in answers if one.result.token_ids]
    assert len(usages) >= len(QUESTIONS) - 1
    for before, after in pairwise(usages):
        assert found(after) >= before.prompt_tokens + before.completion_tokens - 1


def open_real(home: Path, settings: Settings, model: Path) -> Session:
    paths = paths_of(home).ensure()
    client = EngineClient(paths.engine_log)
    session = Session(History.open(paths.database, paths.locks), client, settings, paths)
    session.load(str(model))
    return session


@pytest.mark.model
def test_a_second_question_to_a_small_collection_reads_only_the_question(
    tmp_path: Path, starter_model: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    (small / "bees.md").write_text(f"# Bees\n\n{document('bees', 1)}")
    make_base(paths_of(tmp_path), small, "bees")

    def ask(question: str, *options: str) -> dict[str, Any]:
        words = ("ask", "-m", str(starter_model), "--kb", "bees", "--json", "-o", "max_tokens=8")
        outcome = program(tmp_path, *words, *options, question)
        assert outcome.status == 0, outcome.err
        (answer,) = outcome.objects
        usage = answer["usage"]
        parts = ("reused_tokens", "restored_tokens", "computed_tokens")
        assert sum(usage[part] for part in parts) == usage["prompt_tokens"]
        return answer

    first = ask("Who looked after the bees of plot 3?")
    assert first["usage"]["computed_tokens"] > 400
    second = ask("What did the bees of plot 5 cost?")
    assert second["usage"]["restored_tokens"] > 400
    assert second["usage"]["computed_tokens"] < 60
    # Another beginning, other documents: nothing of it fits, and the answer is none the worse.
    third = ask("What did the bees of plot 5 cost?", "-s", "Be kind.")
    assert third["usage"]["computed_tokens"] > 400
    (small / "bees.md").write_text(f"# Honey\n\n{document('bees', 2)}")
    fourth = ask("What did the bees of plot 5 cost?")
    assert fourth["usage"]["computed_tokens"] > 400
    saved = states_of(tmp_path)
    assert program(tmp_path, "kb", "remove", "bees", "--yes").status == 0
    # Three readings of the base go; the states of the chats are the chats' own.
    assert len(saved) - len(states_of(tmp_path)) == 3


def states_of(home: Path) -> set[Path]:
    return set(paths_of(home).cache.rglob("*.state"))
